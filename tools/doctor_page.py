"""Write the list of the doctor's checks into `docs/doctor.md` and `docs/doctor.zh.md`.

python -m tools.doctor_page            # write
python -m tools.doctor_page --check    # exit status 1 when a page is stale
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from samedevice.doctor import CHECKS
from samedevice.messages import SOURCE, Language

DOCS = Path(__file__).resolve().parents[1] / "docs"
PAGES: Mapping[Language, Path] = {SOURCE: DOCS / "doctor.md", "zh": DOCS / "doctor.zh.md"}
HEADS: Mapping[Language, str] = {
    SOURCE: "| code | name | what it says | known from |",
    "zh": "| 编号 | 名称 | 结论 | 出处 |",
}
_PLACE = re.compile(r"<!-- checks -->\n.*?<!-- end -->", re.DOTALL)


def main(arguments: Sequence[str]) -> int:
    """Write the pages, or say which are stale."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args(arguments)
    stale = [language for language in PAGES if page(language) != PAGES[language].read_text("utf-8")]
    for language in stale:
        if options.check:
            print(f"{PAGES[language].name} is stale: run python -m tools.doctor_page")
        else:
            PAGES[language].write_text(page(language), encoding="utf-8")
    return int(options.check and bool(stale))


def page(language: Language) -> str:
    """A page with the list in its place."""
    rows = [
        f"| {check.code} | `{check.name}` | {_cell(check.title[language])} "
        f"| {'; '.join(map(_cell, check.sources))} |"
        for check in CHECKS
    ]
    text = "\n".join(["<!-- checks -->", "", HEADS[language], "|---|---|---|---|", *rows, "", "<!-- end -->"])
    return _PLACE.sub(lambda _: text, PAGES[language].read_text(encoding="utf-8"))


def _cell(text: str) -> str:
    return re.sub(r"(https://[^\s,;]+[^\s,;:.)])", r"<\1>", text.replace("|", "\\|"))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
