"""Write the pages of the rules, which are in their files, as Markdown: to read them without the site.

python -m tools.pages            # into docs/rules, which is not kept in the repository
python -m tools.pages FOLDER
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from samedevice.messages import SOURCE, Language, languages
from samedevice.report import pages

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "rules"


def page_name(name: str, language: Language) -> str:
    """`SD101.md` in a language: `SD101.zh.md`."""
    return name if language == SOURCE else f"{name.removesuffix('.md')}.{language}.md"


def main(arguments: list[str] | None = None) -> int:
    """Write the pages."""
    parser = argparse.ArgumentParser(prog="python -m tools.pages", description=main.__doc__)
    parser.add_argument("folder", nargs="?", type=Path, default=FOLDER)
    folder: Path = parser.parse_args(arguments).folder
    folder.mkdir(parents=True, exist_ok=True)
    written = {
        page_name(name, language): content
        for language in languages()
        for name, content in pages(language).items()
    }
    for name, content in written.items():
        (folder / name).write_text(content, "utf-8")
    print(f"{len(written)} pages in {folder}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
