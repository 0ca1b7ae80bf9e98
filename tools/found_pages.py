"""Write the pages of docs/found from the cases, so that pages and evidence cannot disagree.

python -m tools.found_pages            # write
python -m tools.found_pages --check    # exit status 1 when a page is stale
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from evidence.found.case import Case, cases

DOCS = Path(__file__).resolve().parents[1] / "docs" / "found"
SEVERITIES = ("inference", "training", "tight", "deprecated")
TITLES = {
    "inference": "Inference and generation",
    "training": "Losses and training",
    "tight": "Only where the budget of the first GPU ends inside an embedding",
    "deprecated": "Old pipelines, most of them deprecated",
}
_CLASSES = 12
_HEAD = """\
Device bugs of released libraries that [`samedevice sweep`](../sweep.md) found, or that were read in what it
does not run (AdaLoRA, EVA and X-LoRA want arguments that it does not give), one page for each root cause:
what a user does to meet it, the statement, a script of at most twenty lines, why the code is wrong, and a
patch of ours. `python -m evidence found` runs each script in the release and in a copy with the patch: the
finding is there, then it is gone, and on one device every number is the same, bit by bit."""


def pages() -> dict[Path, str]:
    """Each page with its text."""
    everything = cases()
    made = {DOCS / f"{case.name}.md": page(case) for case in everything}
    return {DOCS / "README.md": index(everything), **made}


def index(everything: list[Case]) -> str:
    """All cases by severity."""
    lines = [
        "# Found by the sweep",
        "",
        _HEAD,
    ]
    for severity in SEVERITIES:
        rows = [case for case in everything if case.reading["severity"] == severity]
        if not rows:
            continue
        lines += ["", f"## {TITLES[severity]}", "", "| release | finding | statement |", "|---|---|---|"]
        lines += [
            f"| {case.seen['package']} {case.seen['version']} | [{case.reading['title']}]({case.name}.md) "
            f"| `{case.seen['statement']}` |"
            for case in rows
        ]
    return "\n".join(lines) + "\n"


def page(case: Case) -> str:
    """One case."""
    finding, reading = case.seen["finding"], case.reading
    parts = [
        f"# {reading['title']}",
        f"{case.seen['package']} {case.seen['version']}, `{case.seen['statement']}`, code {finding['code']}, "
        f"cause `{finding['cause']}` ({finding['confidence']}).",
        "## How a user meets it",
        reading["user"].strip(),
        "## The statement",
        f"```python\n{finding['at']['code']}\n```",
        f"```text\n{finding['message'].strip()}\n```",
        _operands(finding),
        "## A script",
        f"```python\n{case.script.read_text('utf-8').rstrip()}\n```",
        "On two GPUs it raises; `samedevice run --machine 2x24GB script.py` shows it without any.",
        "## Why the code is wrong",
        reading["why"].strip(),
    ]
    if case.seen["classes"]:
        shown = case.seen["classes"][:_CLASSES]
        more = len(case.seen["classes"]) - len(shown)
        listed = ", ".join(f"`{name}`" for name in shown) + (f" and {more} more" if more > 0 else "")
        parts += ["## Classes with the same cause", f"{listed}."]
    if case.seen["same_lines"]:
        releases = ", ".join(case.seen["same_lines"])
        parts += [
            "## Other releases",
            f"The patch applies unchanged to {releases}, too; there nothing was run.",
        ]
    parts += [
        "## A patch",
        f"```diff\n{case.patch.read_text('utf-8').rstrip()}\n```",
        f"`python -m evidence found {case.name}` applies it to a copy of the release.",
    ]
    return "\n\n".join(parts) + "\n"


def _operands(finding: Mapping[str, Any]) -> str:
    lines = ["| operand | device | shape | why it is there |", "|---|---|---|---|"]
    for operand in finding["operands"]:
        mark = " (wrong)" if operand["name"] == finding["guilty"] else ""
        shape = f"{operand['dtype']} {list(operand['shape'] or ())}"
        lines.append(f"| `{operand['name']}`{mark} | {operand['device']} | {shape} | {_why(operand)} |")
    return "\n".join(lines)


def _why(operand: Mapping[str, Any]) -> str:
    """The decision that put it there, and the one before."""
    steps = []
    for step in operand["lineage"][:2]:
        name = f" `{step['name']}`" if step["name"] else ""
        at = f" at `{step['at']['file']}:{step['at']['line']}`" if step["at"] else ""
        entry = f", entry `{step['entry']}` of the device map" if step["entry"] else ""
        steps.append(f"{step['kind']}{name} on {step['device']}{at}{entry}")
    return "; before: ".join(steps).replace("|", "\\|") or "not known"


def main(arguments: list[str]) -> int:
    """Write the pages, or compare them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    check = parser.parse_args(arguments).check
    DOCS.mkdir(exist_ok=True)
    stale = [path for path, text in pages().items() if not path.is_file() or path.read_text("utf-8") != text]
    for path in stale:
        if check:
            print(f"stale: {path.name}", file=sys.stderr)
        else:
            path.write_text(pages()[path], "utf-8")
    return int(check and bool(stale))


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
