"""Write `docs/patches.md` from the table of patches, or check that it is up to date.

python -m tools.patches_page            # write
python -m tools.patches_page --check    # exit status 1 when the page is stale
"""

from __future__ import annotations

import argparse
import importlib
import pkgutil
import sys
from itertools import groupby
from pathlib import Path
from types import ModuleType
from typing import Any

from samedevice import runtime
from samedevice.runtime.table import TABLE

PAGE = Path(__file__).resolve().parents[1] / "docs" / "patches.md"
HEAD = """# What is replaced while a machine is entered

A virtual machine changes nothing on disk. While it is entered, the attributes on this page hold something
else. When it is left, each holds again what it held: the last change is taken back first, and a step that
fails keeps no other from its turn. The page is written from the rows themselves
(`python -m tools.patches_page`); each row stands in the file that heads its table. *Since* is empty for what
every supported torch has, and for what is added to it.

"""


def page() -> str:
    """The whole page."""
    modules = _modules()
    parts = [HEAD]
    for name, rows in groupby(TABLE.rows, key=lambda row: modules[row.target, row.why]):
        module = sys.modules[name]
        parts.append(
            f"## `{name.removeprefix('samedevice.').replace('.', '/')}.py`\n\n{_summary(module)}\n\n"
        )
        parts.append("| replaced | by | why | since |\n|---|---|---|---|\n")
        for (why, since), family in groupby(rows, key=lambda row: (row.why, row.since)):
            same = list(family)
            makers = list(dict.fromkeys(row.by for row in same))
            by = (
                makers[0]
                if len(makers) == 1
                else "one function each"
                if len(makers) > 3
                else ", ".join(makers)
            )
            targets = ", ".join(f"`{row.target}`" for row in same)
            parts.append(f"| {targets} | {by} | {why} | {since} |\n".replace("||", "\\|\\|"))
        parts.append("\n")
    return "".join(parts).rstrip() + "\n"


def _modules() -> dict[tuple[str, str], str]:
    """The file in which each row stands: the innermost that lists it."""
    found: dict[tuple[str, str], str] = {}
    sizes: dict[tuple[str, str], int] = {}
    for info in pkgutil.walk_packages(runtime.__path__, "samedevice.runtime."):
        rows: tuple[Any, ...] = getattr(importlib.import_module(info.name), "PATCHES", ())
        for row in rows:
            key = row.target, row.why
            if key not in found or len(rows) < sizes[key]:
                found[key], sizes[key] = info.name, len(rows)
    return found


def _summary(module: ModuleType) -> str:
    """The first paragraph of a module's docstring."""
    return " ".join((module.__doc__ or "").strip().partition("\n\n")[0].split())


def main(arguments: list[str] | None = None) -> int:
    """Write or check the page."""
    parser = argparse.ArgumentParser(prog="python -m tools.patches_page", description=main.__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing, tell whether it is stale")
    if parser.parse_args(arguments).check:
        fresh = PAGE.read_text("utf-8") == page()
        print("" if fresh else "stale: docs/patches.md")
        return 0 if fresh else 1
    PAGE.write_text(page(), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
