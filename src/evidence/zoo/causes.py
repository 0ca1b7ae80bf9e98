"""The diagnosis of a released bug names its cause and the operand in the wrong place, and its fixes work.

Time: about ten minutes; twice that with `--fixes`.
Needs: PyPI the first time, for old releases.

    python -m evidence causes                     # every case on its bad version
    python -m evidence causes clip-logits-matmul  # some
    python -m evidence causes --fixes             # also run what each fix makes of the script

What is right stands in `causes.json`: the cause for each kind of the zoo's index, and the operand that is in
the wrong place. A release to install counts as working when it is the case's good version, on which the
command `zoo` finds nothing. Exit status 1 when cause or operand is right in fewer than nine of ten cases.
"""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from evidence.commands import command_parser
from evidence.zoo.judge import judge_good, matches
from evidence.zoo.zoo import ZOO, Case, cases, run_way

KEY: Mapping[str, Any] = json.loads(Path(__file__).with_name("causes.json").read_text("utf-8"))
_TIMEOUT = 400.0


def expected(case: Case, kind: str) -> tuple[set[str], set[str]]:
    """Causes and operands that are right for a case."""
    row = KEY["kinds"][kind]
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


class Repaired(Case):
    """A case whose script is another file."""

    path: Path

    @property
    def script(self) -> Path:
        """The repaired script."""
        return self.path


def works(case: Case, fix: Mapping[str, Any]) -> bool | None:
    """Whether a fix makes the case run clean; None when it is in words only."""
    if fix["diff"]:
        with tempfile.TemporaryDirectory(prefix="samedevice-fix-") as folder:
            path = Path(folder) / f"{case.id}.py"
            path.write_text(apply(fix["diff"], case.script.read_text("utf-8")), "utf-8")
            changed = Repaired(case.id, case.pins, case.machine, case.expect)
            object.__setattr__(changed, "path", path)
            return judge_good(run_way(changed, "bad", _TIMEOUT)).right
    if named := re.search(r"pip install ([\w-]+)==([\w.]+)", fix["title"]):
        return case.pins["good"].get(named[1]) == named[2]
    return None


def main(arguments: Sequence[str] | None = None) -> int:
    """Run, compare, print a line for each case and the totals."""
    parser = command_parser(__name__, __doc__)
    parser.add_argument("cases", nargs="*", metavar="CASE")
    parser.add_argument("--fixes", action="store_true", help="also run what each fix makes of the script")
    options = parser.parse_args(arguments)
    kinds = {entry["id"]: entry["kind"] for entry in json.loads((ZOO / "index.json").read_text("utf-8"))}
    chosen = [case for case in cases() if not options.cases or case.id in options.cases]
    causes = operands = offered = worked = 0
    for case in chosen:
        outcome = run_way(case, "bad", _TIMEOUT)
        finding = next((each for each in outcome.findings or () if matches(each, case.expect)), None)
        right, guilty = expected(case, kinds[case.id])
        cause_right = finding is not None and finding["cause"] in right
        guilty_right = finding is not None and finding["guilty"] in guilty
        causes += cause_right
        operands += guilty_right
        results = []
        if options.fixes and finding is not None:
            tried = [works(case, fix) for fix in finding["fixes"]]
            results = [result for result in tried if result is not None]
            offered += bool(results)
            worked += any(results)
        said = (
            f"{finding['cause']} ({finding['confidence']}), {finding['guilty']}"
            if finding is not None
            else "not found"
        )
        marks = f"{'cause' if cause_right else 'CAUSE'} {'operand' if guilty_right else 'OPERAND'}"
        print(f"{marks} {case.id}: {said} {results if options.fixes else ''}".rstrip(), flush=True)
    count = len(chosen)
    print(f"cause right {causes} of {count}, guilty operand right {operands} of {count}")
    if options.fixes:
        print(f"cases with a fix that can be run {offered}, with one that makes the case run clean {worked}")
    return 0 if min(causes, operands) >= 0.9 * count else 1
