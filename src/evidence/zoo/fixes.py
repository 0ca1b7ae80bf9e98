"""Most released bugs, and most bugs of small programs, get a fix that runs clean and writes no device down.

Time: forty minutes.
Needs: PyPI the first time, for old releases; transformers and accelerate.

    python -m evidence fixes                          # the released bugs, then the small programs
    python -m evidence fixes clip-logits-matmul       # some cases, by their names
    python -m evidence fixes --json out.json

Each case runs on its bad version under `samedevice run --try-fixes`, which runs the program again with each
change that is called safe, and with each patch. `own` are changes of the case's own script, `patch` those of
the library. A case is clean when the last of these runs, with all changes that were kept, found nothing. A
change has a literal where it writes a device down: `"cuda:0"`, `"cpu"`, `.cuda()`; `.cpu()` is none for
what reads on the host alone.

Exit status 1 when a change that was kept has a literal, or fewer than two in three cases are clean.
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from evidence.bugs.subjects import NO_REPORT, Subject, released, reported, small
from evidence.commands import command_parser
from evidence.environments import overlays
from evidence.zoo.zoo import cases

_LITERAL = re.compile(r"""["'](?:cpu|cuda(?::\d+)?)["']|\.cuda\(|\.cpu\(""")
_ENOUGH = 2 / 3
_LIMIT = 1800.0
"""Seconds for a case with all its runs."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of its findings."""

    group: str
    name: str
    findings: int
    own: int
    patch: int
    literals: int
    left: int
    runs: int

    @property
    def clean(self) -> bool:
        """Whether a run with all changes found nothing."""
        return self.findings > 0 and self.left == 0 and self.own + self.patch > 0


def subjects(names: Sequence[str]) -> list[Subject]:
    """The cases of the zoo with their bad versions, and the small programs."""
    everything = [*map(released, cases()), *small()]
    chosen = [subject for subject in everything if not names or subject.name in names]
    overlays.ensure_all(subject.pins for subject in chosen)
    return chosen


def outcome(subject: Subject) -> Outcome:
    """Run one program with trials of its fixes."""
    with tempfile.TemporaryDirectory(prefix="samedevice-fixes-") as folder:
        try:
            script, document = reported(subject, subject.machine, "--try-fixes", Path(folder), _LIMIT)
        except NO_REPORT:
            return Outcome(subject.group, subject.name, 0, 0, 0, 0, 0, 0)
        return _read(subject, document, str(script))


def _read(subject: Subject, document: Mapping[str, Any], script: str) -> Outcome:
    tried = [(finding, fix) for finding in document["findings"] for fix in finding["fixes"]]
    kept = [fix for _, fix in tried if fix["tried"] == "clean"]
    literals = (writes_device(fix["diff"], finding) for finding, fix in tried if fix["tried"] == "clean")
    fixing = document["fixing"]
    return Outcome(
        subject.group,
        subject.name,
        len(document["findings"]),
        sum(Path(fix["file"]).name == Path(script).name for fix in kept),
        sum(Path(fix["file"]).name != Path(script).name for fix in kept),
        sum(literals),
        fixing["left_with_patches"],
        fixing["runs"],
    )


def writes_device(diff: str, finding: Mapping[str, Any]) -> bool:
    """Whether a diff writes a device that the lines before it did not have.

    `.cpu()` writes none down for what reads on the host whatever its other operands are on: NumPy, lengths.
    """
    host = finding["cause"] == "numpy-of-gpu-tensor" or " on the host" in finding["title"]
    lines = [line for line in diff.splitlines() if not line.startswith(("---", "+++"))]
    old, new = (
        _LITERAL.findall("\n".join(line[1:] for line in lines if line.startswith(sign))) for sign in "-+"
    )
    return any(new.count(each) > old.count(each) for each in new if not (host and each == ".cpu("))


def totals(outcomes: Iterable[Outcome]) -> list[str]:
    """A line for each group."""
    rows = list(outcomes)
    lines = []
    for group in dict.fromkeys(row.group for row in rows):
        own = [row for row in rows if row.group == group]
        clean = [row for row in own if row.clean]
        free = sum(row.literals == 0 for row in clean)
        lines.append(
            f"{group}: clean with automatic fixes {len(clean)}/{len(own)} "
            f"({100 * len(clean) / len(own):.0f} %), of these without a literal device {free}/{len(clean)}"
        )
    return lines


def main(arguments: Sequence[str] | None = None) -> int:
    """Run all and print the table."""
    parser = command_parser(__name__, __doc__)
    parser.add_argument("names", nargs="*", metavar="CASE", help="only these cases or programs")
    parser.add_argument("--jobs", type=int, default=2, metavar="N", help="cases at a time (default: 2)")
    parser.add_argument("--json", type=Path, help="also write every outcome to this file")
    options = parser.parse_args(arguments)
    try:
        chosen = subjects(options.names)
    except overlays.OverlayError as error:
        print(error, file=sys.stderr)
        return 2
    if not chosen:
        print("no such case", file=sys.stderr)
        return 2
    print(f"{'case':36} findings  own  patch  literals  left  runs  clean")
    outcomes = []
    with ThreadPoolExecutor(options.jobs) as pool:
        for done in as_completed([pool.submit(outcome, each) for each in chosen]):
            outcomes.append(row := done.result())
            print(
                f"{row.name:36} {row.findings:8}  {row.own:3}  {row.patch:5}  {row.literals:8}  "
                f"{row.left:4}  {row.runs:4}  {'yes' if row.clean else 'no'}",
                flush=True,
            )
    print("\n".join(totals(outcomes)))
    if options.json:
        options.json.write_text(json.dumps([asdict(row) for row in outcomes], indent=1) + "\n", "utf-8")
    share = sum(row.clean for row in outcomes) / len(outcomes)
    return 0 if share >= _ENOUGH and not any(row.literals for row in outcomes) else 1
