"""Write the pages of the rules into `docs/rules/`, or check that they are up to date.

python -m tools.pages            # write
python -m tools.pages --check    # exit status 1 when a page is stale, missing or left over
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from samedevice.report import pages

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "rules"


def stale(folder: Path = FOLDER) -> list[str]:
    """Names of pages that differ from what the rules say, are missing, or belong to no rule."""
    wanted = pages()
    there = {path.name: path.read_text("utf-8") for path in folder.glob("*.md")} if folder.is_dir() else {}
    return sorted(name for name in wanted.keys() | there.keys() if wanted.get(name) != there.get(name))


def main(arguments: list[str] | None = None) -> int:
    """Write or check the pages."""
    parser = argparse.ArgumentParser(prog="python -m tools.pages", description=main.__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing, tell what is stale")
    if parser.parse_args(arguments).check:
        names = stale()
        print(*[f"stale: docs/rules/{name}" for name in names], sep="\n" if names else "")
        return 1 if names else 0
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name in stale():
        content = pages().get(name)
        path = FOLDER / name
        if content is None:
            path.unlink()
        else:
            path.write_text(content, "utf-8")
        print(f"docs/rules/{name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
