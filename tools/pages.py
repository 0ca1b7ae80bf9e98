"""Write the pages of the rules, which are in their files, as Markdown: for a site, or to read them offline.

python -m tools.pages            # into docs/rules, which is not kept in the repository
python -m tools.pages FOLDER
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from samedevice.report import pages

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "rules"


def main(arguments: list[str] | None = None) -> int:
    """Write the pages."""
    parser = argparse.ArgumentParser(prog="python -m tools.pages", description=main.__doc__)
    parser.add_argument("folder", nargs="?", type=Path, default=FOLDER)
    folder: Path = parser.parse_args(arguments).folder
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in pages().items():
        (folder / name).write_text(content, "utf-8")
    print(f"{len(pages())} pages in {folder}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
