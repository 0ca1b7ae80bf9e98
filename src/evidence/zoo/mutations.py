"""On a virtual machine a test suite notices that a repair was taken back; on a CPU it does not.

Time: some minutes for a dozen cases.
Needs: PyPI the first time, for old releases.

    python -m evidence mutations                     # a dozen cases
    python -m evidence mutations falcon-seqcls-lengths

Each case of the zoo becomes a suite of one test, the way multi-GPU code is tested on machines without GPUs:
it runs the case's script on the GPUs that are there, and on the CPU where there are none. A mutation is the
release that has the bug in the place of the one that has the repair. It is caught when the test passes with
the repair, fails without it, and fails because of a finding.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

from evidence.commands import command_parser
from evidence.environments import overlays
from evidence.places import SOURCES
from evidence.zoo.zoo import FIRST, Case, cases, sample

_DOZEN = 12
_PATIENCE = 600
_SUITE = """
import re
from pathlib import Path

import torch

SCRIPT = Path({script!r})


def test_scenario(capsys):
    text = SCRIPT.read_text("utf-8")
    if not torch.cuda.is_available():
        text = re.sub(r"\\bcuda(:\\d+)?\\b(?=[\\"'])", "cpu", text)
        text = re.sub(r"(\\"[\\w.]+\\": )\\d+(?=[,}}])", r'\\1"cpu"', text) if "device_map" in text and "cpu" not in text else text
    exec(compile(text, str(SCRIPT), "exec"), {{"__name__": "__main__", "__file__": str(SCRIPT)}})
    assert capsys.readouterr().out.splitlines()[-1] == "SCENARIO OK"
"""  # noqa: E501  # a text, line by line
_QUIET = {
    "HF_HUB_OFFLINE": "1",
    "OMP_NUM_THREADS": "1",
    "TOKENIZERS_PARALLELISM": "false",
    "PYTHONHASHSEED": "0",
}


@dataclass(frozen=True, slots=True)
class Run:
    """One run of a suite."""

    passed: bool
    findings: tuple[str, ...]
    said: str


@dataclass(frozen=True, slots=True)
class Row:
    """One case: its suite with and without the repair, on the CPU and on the machine."""

    case: Case
    runs: dict[tuple[str, str], Run]

    def caught(self, place: str) -> bool:
        """Whether the suite notices there that the repair is gone."""
        return self.runs["good", place].passed and not self.runs["bad", place].passed

    @property
    def right(self) -> bool:
        """Caught on the machine, by a finding, and not on the CPU."""
        return (
            self.caught("machine") and bool(self.runs["bad", "machine"].findings) and not self.caught("cpu")
        )


def run_suite(case: Case, way: str, place: str) -> Run:
    """Run the suite of a case with its `bad` or `good` releases, on the `cpu` or on its `machine`."""
    with tempfile.TemporaryDirectory(prefix="samedevice-mutation-") as scratch:
        Path(scratch, "test_scenario.py").write_text(_SUITE.format(script=str(case.script)), encoding="utf-8")
        environment = {**overlays.environment(case.pins[way]), **_QUIET, "TMPDIR": scratch}
        environment["PYTHONPATH"] = os.pathsep.join([str(SOURCES), environment["PYTHONPATH"]])
        report = Path(scratch, "report.xml")
        options = [
            "-q",
            "-p",
            "no:cacheprovider",
            "-p",
            "no:samedevice",
            "-p",
            "samedevice.pytest_plugin",
            f"--junit-xml={report}",
        ]
        options += (
            [f"--machine={case.machine}", "--device-findings=error"] if place == "machine" else ["--machine="]
        )
        done = subprocess.run(
            [sys.executable, "-m", "pytest", *options, "test_scenario.py"],
            cwd=scratch,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            errors="replace",
            timeout=_PATIENCE,
            check=False,
        )
        values = [
            each.get("value", "")
            for each in ElementTree.parse(report).iter("property")
            if each.get("name") == "device_finding"
        ]
    return Run(done.returncode == 0, tuple(values), done.stdout)


def run_case(case: Case) -> Row:
    """All four runs of one case."""
    row = Row(
        case,
        {
            (way, place): run_suite(case, way, place)
            for way in ("good", "bad")
            for place in ("cpu", "machine")
        },
    )
    print(f"{'right' if row.right else 'WRONG'} {case.id}", file=sys.stderr, flush=True)
    return row


def table(rows: Sequence[Row]) -> list[str]:
    """One line a case, and the totals."""
    width = max(len(row.case.id) for row in rows)
    lines = [
        f"{'repair of':{width}}  {'cpu':>14}  {'machine':>14}",
        f"{'':{width}}  {'with without':>14}  {'with without':>14}  finding",
    ]
    for row in rows:
        cells = [
            f"{_word(row.runs['good', place]):>6} {_word(row.runs['bad', place]):>7}"
            for place in ("cpu", "machine")
        ]
        finding = re.sub(r"\S*/overlays/[^/]+/", "", (row.runs["bad", "machine"].findings or ("none",))[0])
        lines.append(f"{row.case.id:{width}}  {'  '.join(cells)}  {finding}")
    counts = {place: sum(row.caught(place) for row in rows) for place in ("cpu", "machine")}
    return [
        *lines,
        f"{len(rows)} repairs taken back: the CPU notices {counts['cpu']}, the virtual machine "
        f"{counts['machine']}",
    ]


def _word(run: Run) -> str:
    return "passes" if run.passed else "fails"


def main(arguments: Sequence[str] | None = None) -> int:
    """Take repairs of released bugs back and see which suites notice."""
    parser = command_parser(__name__, __doc__)
    parser.add_argument(
        "ids",
        nargs="*",
        metavar="CASE",
        help=f"only these cases of the zoo (default: {_DOZEN}, the same every time)",
    )
    parser.add_argument("--all", action="store_true", help="every case")
    parser.add_argument("--jobs", type=int, default=2, metavar="N", help="cases at a time (default: 2)")
    given = parser.parse_args(arguments)
    everything = cases()
    if unknown := set(given.ids) - {case.id for case in everything}:
        parser.error(f"no such case: {', '.join(sorted(unknown))}")
    chosen = [case for case in everything if case.id in given.ids] if given.ids else everything
    if not given.ids and not given.all:
        chosen = sample([case for case in everything if case.part == FIRST], _DOZEN)
    try:
        overlays.ensure_all(pins for case in chosen for pins in case.pins.values())
    except overlays.OverlayError as error:
        print(error, file=sys.stderr)
        return 2
    with ThreadPoolExecutor(given.jobs) as pool:
        rows = list(pool.map(run_case, chosen))
    print("\n".join(table(rows)))
    for row in rows:
        if not row.right:
            for (way, place), run in row.runs.items():
                if run.passed != (way == "good" or place == "cpu"):
                    print(f"\n{row.case.id}, {way}, {place}:\n{run.said[-2000:]}")
    return 0 if all(row.right for row in rows) else 1
