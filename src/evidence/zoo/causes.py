"""The diagnosis of a released bug names its cause and the operand in the wrong place.

Time: about ten minutes.
Needs: PyPI the first time, for old releases.

    python -m evidence causes                     # every case on its bad version
    python -m evidence causes clip-logits-matmul  # some
    python -m evidence causes --runs zoo.json     # of runs that `zoo --json zoo.json` made

What is right stands in `causes.json`: the cause for each kind of the zoo's index, and the operand that is in
the wrong place. For the cases that came after the first 47 both were written before the diagnosis was looked
at. Of these no rule may be written in view of the half called `unseen`, and what is said of such a case is
shown only where the case is named. Whether fixes work is asked by the command `fixes`. Exit status 1 when
cause or operand is right in fewer than nine of ten cases of a part.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from evidence.commands import command_parser
from evidence.zoo.judge import matches
from evidence.zoo.zoo import PARTS, UNSEEN, ZOO, Case, cases, run_way

KEY: Mapping[str, Any] = json.loads(Path(__file__).with_name("causes.json").read_text("utf-8"))
_TIMEOUT = 400.0


@functools.cache
def _kinds() -> dict[str, str]:
    return {entry["id"]: entry["kind"] for entry in json.loads((ZOO / "index.json").read_text("utf-8"))}


def expected(case: Case) -> tuple[set[str], set[str]]:
    """Causes and operands that are right for a case."""
    row = KEY["kinds"][_kinds()[case.id]]
    return {row["cause"], *row.get("also", ())}, set(KEY["guilty"][case.id])


def apply(diff: str, text: str) -> str:
    """The text that a unified diff makes of `text`."""
    old, new, position = text.splitlines(keepends=True), list[str](), 0
    for line in diff.splitlines(keepends=True):
        if line.startswith(("---", "+++", "\\")):
            continue
        if hunk := re.match(r"@@ -(\d+)", line):
            start = int(hunk[1]) - 1
            new += old[position:start]
            position = start
        elif line[0] == "+":
            new.append(line[1:])
        else:
            if line[0] == " ":
                new.append(line[1:])
            position += 1
    return "".join(new + old[position:])


def tell(name: str, rows: Sequence[tuple[bool, bool]]) -> bool:
    """Print how many causes and operands are right, and say whether nine in ten are."""
    causes, operands = (sum(column) for column in zip(*rows, strict=True))
    print(f"{name}: cause right {causes} of {len(rows)}, guilty operand right {operands} of {len(rows)}")
    return bool(min(causes, operands) >= 0.9 * len(rows))


def _found(
    chosen: Sequence[Case], saved: Path | None, jobs: int
) -> Iterator[tuple[Case, Mapping[str, Any] | None]]:
    """Each case with its expected finding on the bad version, or None."""
    if saved is not None:
        rows = {row["id"]: row["bad"] for row in json.loads(saved.read_text("utf-8"))["cases"]}
        yield from ((case, rows[case.id]["diagnosis"]) for case in chosen if rows.get(case.id))
        return
    with ThreadPoolExecutor(jobs) as pool:
        runs = pool.map(lambda case: run_way(case, "bad", _TIMEOUT), chosen)
        for case, outcome in zip(chosen, runs, strict=True):
            findings = outcome.findings or ()
            yield case, next((each for each in findings if matches(each, case.expect)), None)


def _said(finding: Mapping[str, Any] | None) -> str:
    if finding is None:
        return "not found"
    return f"{finding['cause']} ({finding['confidence']}), {finding['guilty']}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run, compare, print a line for each case and the totals."""
    parser = command_parser(__name__, __doc__)
    parser.add_argument("cases", nargs="*", metavar="CASE")
    parser.add_argument("--jobs", type=int, default=2, metavar="N", help="cases at a time (default: 2)")
    parser.add_argument(
        "--runs", type=Path, metavar="FILE", help="take what `zoo --json FILE` wrote, and run nothing again"
    )
    options = parser.parse_args(arguments)
    chosen = [case for case in cases() if not options.cases or case.id in options.cases]
    right: dict[str, list[tuple[bool, bool]]] = {part: [] for part in PARTS}
    for case, finding in _found(chosen, options.runs, options.jobs):
        accepted, guilty = expected(case)
        cause_right = finding is not None and finding["cause"] in accepted
        guilty_right = finding is not None and finding["guilty"] in guilty
        right[case.part].append((cause_right, guilty_right))
        said = _said(finding) if case.part != UNSEEN or case.id in options.cases else ""
        marks = f"{'cause' if cause_right else 'CAUSE'} {'operand' if guilty_right else 'OPERAND'}"
        print(f"{marks} {case.part} {case.id} {said}".rstrip(), flush=True)
    enough = [
        tell(name, rows)
        for name, rows in {**right, "all": [row for rows in right.values() for row in rows]}.items()
        if rows
    ]
    return 0 if all(enough) else 1
