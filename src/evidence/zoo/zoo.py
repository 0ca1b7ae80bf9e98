"""Every released bug is found on the version that has it, and nothing is found on the one that does not.

Time: five minutes; half an hour the first time.
Needs: PyPI the first time, for old releases.

    python -m evidence zoo                            # all cases, both ways
    python -m evidence zoo clip-logits-matmul         # some
    python -m evidence zoo --build-only               # only install the package versions

Exit status 0: every bug was found at its statement and every good version ran clean; 1: not so; 2: wrong
usage or no overlays.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from evidence.commands import command_parser
from evidence.environments import overlays
from evidence.places import SOURCES
from evidence.zoo.judge import Outcome, Verdict, judge_bad, judge_good

ZOO = Path(__file__).resolve().parent
FIRST, SEEN, UNSEEN = PARTS = ("first", "seen", "unseen")
"""The cases that rules were written with, and the halves of those that came later: no rule may be written in
view of the last.
"""
_COMPLAINT_LINES = 3
# No case downloads anything, and a hub that is asked all the same must not make a run slow or different.
OFFLINE = {
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "HF_DATASETS_OFFLINE": "1",
    "DIFFUSERS_OFFLINE": "1",
}
# Tiny models: threads only get in the way of the neighbouring run.
ONE_THREAD = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}


@dataclass(frozen=True, slots=True)
class Case:
    """One released bug, as `index.json` describes it."""

    id: str
    pins: Mapping[str, Mapping[str, str]]
    """Exact package versions for `bad` and for `good`."""
    machine: str
    expect: Mapping[str, Any]
    part: str = FIRST
    """One of `PARTS`."""
    folder: str = "cases"
    """Where the script is."""

    @property
    def script(self) -> Path:
        """The user script that shows the bug."""
        return ZOO / self.folder / f"{self.id}.py"


@dataclass(frozen=True, slots=True)
class Row:
    """One case, judged; a way that was not run is None."""

    case: Case
    bad: Verdict | None
    good: Verdict | None
    seconds: float

    @property
    def right(self) -> bool:
        """Whether every way that ran is right."""
        return all(verdict.right for verdict in (self.bad, self.good) if verdict is not None)


def cases() -> list[Case]:
    """All cases, in the order of the index."""
    entries = json.loads((ZOO / "index.json").read_text(encoding="utf-8"))
    return [
        Case(
            entry["id"],
            {"bad": entry["bad"], "good": entry["good"]},
            entry["machine"],
            entry["expect"],
            entry.get("half", FIRST),
        )
        for entry in entries
    ]


def silent() -> list[Case]:
    """Programs that were taken for device bugs and work on GPUs: they have a good version only."""
    entries = json.loads((ZOO / "silent.json").read_text(encoding="utf-8"))
    return [
        Case(entry["id"], {"good": entry["good"]}, entry["machine"], {}, folder="cases/silent")
        for entry in entries
    ]


def drawn(name: str) -> str:
    """The half that a case of this name belongs to: what anybody can compute, and nobody can choose."""
    return (SEEN, UNSEEN)[hashlib.sha256(name.encode()).digest()[0] % 2]


def sample(everything: Sequence[Case], size: int) -> list[Case]:
    """The same `size` cases every time, spread over the index; a new case disturbs the choice as little as
    possible.
    """
    ranked = sorted(everything, key=lambda case: hashlib.sha256(case.id.encode()).digest())
    chosen = {case.id for case in ranked[:size]}
    return [case for case in everything if case.id in chosen]


def built(chosen: Iterable[Case]) -> bool:
    """Whether every package version that the cases need is in the cache."""
    return not any(overlays.missing(pins) for case in chosen for pins in case.pins.values())


def environment(case: Case, way: str) -> dict[str, str]:
    """The variables of a process that runs a case on its `bad` or `good` version."""
    return environment_with(case.pins[way])


def environment_with(pins: Mapping[str, str]) -> dict[str, str]:
    """The variables of a process that runs with these versions, this samedevice and no network."""
    env = overlays.environment(pins)
    env["PYTHONPATH"] = os.pathsep.join([str(SOURCES), env["PYTHONPATH"]])
    return env | OFFLINE | ONE_THREAD


def run_way(case: Case, way: str, timeout: float) -> Outcome:
    """Run one case on its `bad` or `good` version under `samedevice run`, in a process of its own."""
    env = environment(case, way)
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="samedevice-zoo-") as scratch:
        report = Path(scratch) / "report.json"
        command = [
            sys.executable,
            "-m",
            "samedevice",
            "run",
            "--machine",
            case.machine,
            "--json",
            str(report),
        ]
        try:
            done = subprocess.run(
                [*command, str(case.script)],
                cwd=scratch,
                env=env,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                encoding="utf-8",
                errors="replace",
                timeout=timeout,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return Outcome(None, _findings(report), "", seconds=time.monotonic() - started)
        seconds = time.monotonic() - started
        return Outcome(
            done.returncode,
            _findings(report),
            _tail(done.stdout, 1),
            _tail(done.stderr, _COMPLAINT_LINES),
            seconds,
        )


def run_case(case: Case, ways: Sequence[str], timeout: float) -> Row:
    """Run and judge one case."""
    outcomes = {way: run_way(case, way, timeout) for way in ways if way in case.pins}
    return Row(
        case,
        judge_bad(outcomes["bad"], case.expect) if "bad" in outcomes else None,
        judge_good(outcomes["good"]) if "good" in outcomes else None,
        sum(outcome.seconds for outcome in outcomes.values()),
    )


def run_all(chosen: Sequence[Case], ways: Sequence[str], jobs: int, timeout: float) -> list[Row]:
    """Run and judge the cases, `jobs` at a time, telling each as it ends; rows come back in the order of the
    cases.
    """
    rows: dict[str, Row] = {}
    with ThreadPoolExecutor(jobs) as pool:
        futures = [pool.submit(run_case, case, ways, timeout) for case in chosen]
        try:
            for future in as_completed(futures):
                row = future.result()
                rows[row.case.id] = row
                word = "right" if row.right else "WRONG"
                print(
                    f"[{len(rows)}/{len(chosen)}] {word} {row.case.id} {row.seconds:.1f} s",
                    file=sys.stderr,
                    flush=True,
                )
        finally:
            pool.shutdown(
                cancel_futures=True
            )  # ctrl-C reaches the running ones by itself; the waiting ones must not start
    return [rows[case.id] for case in chosen]


def show(rows: Sequence[Row], seconds: float) -> None:
    """Print one row per case, what was found where something is wrong, and the totals."""
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    console = Console(width=None if sys.stdout.isatty() else 160)
    table = Table(
        "case", "bad: found", "others", "good: clean", "seconds", title="released bugs, run both ways"
    )
    for row in rows:
        others = str(len(row.bad.others)) if row.bad and row.bad.right else ""
        table.add_row(row.case.id, _word(row.bad), others, _word(row.good), f"{row.seconds:.1f}")
    console.print(table)
    for row in rows:
        for way, verdict in (("bad", row.bad), ("good", row.good)):
            if verdict is None or (verdict.right and not verdict.others):
                continue
            console.print(
                f"[bold]{escape(row.case.id)}[/bold], {way}: {escape(verdict.why or 'found; also')}",
                soft_wrap=True,
            )
            for other in verdict.others:
                console.print(f"    {escape(other)}", soft_wrap=True)
    for part in PARTS:
        chosen = [row for row in rows if row.case.part == part and "bad" in row.case.pins]
        if 0 < len(chosen) < len(rows):
            print(f"{part}: {totals(chosen, sum(row.seconds for row in chosen))}")
    print(totals(rows, seconds))


def totals(rows: Sequence[Row], seconds: float) -> str:
    """The totals of some cases: `found 47/47, good clean 47/47, false alarms 0, seconds 210`."""
    bad = [row.bad for row in rows if row.bad is not None]
    good = [row.good for row in rows if row.good is not None]
    alarms = sum(len(verdict.others) for verdict in good)
    found = f"found {sum(v.right for v in bad)}/{len(bad)}"
    clean = f"good clean {sum(v.right for v in good)}/{len(good)}"
    return f"{found}, {clean}, false alarms {alarms}, seconds {seconds:.0f}"


def document(rows: Sequence[Row], seconds: float) -> dict[str, Any]:
    """What `--json` writes."""
    return {
        "schema": 1,
        "seconds": round(seconds, 1),
        "cases": [
            {
                "id": row.case.id,
                "part": row.case.part,
                "bad": asdict(row.bad) if row.bad else None,
                "good": asdict(row.good) if row.good else None,
                "seconds": round(row.seconds, 1),
            }
            for row in rows
        ],
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the cases and say whether every bug was found and every good version ran clean."""
    options = _parser().parse_args(arguments)
    everything = [*cases(), *silent()]
    known = {case.id for case in everything}
    if unknown := [name for name in options.ids if name not in known]:
        print(f"no such case: {', '.join(unknown)}; `--list` names them all", file=sys.stderr)
        return 2
    if options.list:
        print("\n".join(sorted(known)))
        return 0
    chosen = [case for case in everything if not options.ids or case.id in options.ids]
    if options.sample is not None:
        chosen = sample(chosen, options.sample)
    ways = [way for way in ("bad", "good") if options.only in (None, way)]
    chosen = [case for case in chosen if case.pins.keys() & set(ways)]
    try:
        overlays.ensure_all(pins for case in chosen for way, pins in case.pins.items() if way in ways)
    except overlays.OverlayError as error:
        print(error, file=sys.stderr)
        return 2
    if options.build_only:
        return 0
    started = time.monotonic()
    rows = run_all(chosen, ways, options.jobs, options.timeout)
    seconds = time.monotonic() - started
    if options.json is not None:
        options.json.write_text(json.dumps(document(rows, seconds), indent=1) + "\n", encoding="utf-8")
    show(rows, seconds)
    return 0 if all(row.right for row in rows) else 1


def _parser() -> argparse.ArgumentParser:
    parser = command_parser(__name__, __doc__)
    parser.add_argument("ids", nargs="*", metavar="CASE", help="only these cases")
    ways = parser.add_mutually_exclusive_group()
    ways.add_argument(
        "--bad-only",
        dest="only",
        action="store_const",
        const="bad",
        help="only the versions that have the bug",
    )
    ways.add_argument(
        "--good-only", dest="only", action="store_const", const="good", help="only the versions that do not"
    )
    parser.add_argument(
        "--jobs", type=_at_least_one, default=2, metavar="N", help="cases at a time (default: 2)"
    )
    parser.add_argument(
        "--timeout", type=float, default=300.0, metavar="SECONDS", help="for each run (default: 300)"
    )
    parser.add_argument(
        "--sample", type=_at_least_one, metavar="N", help="only N cases, the same ones every time"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the results there too")
    parser.add_argument("--build-only", action="store_true", help="install the package versions and stop")
    parser.add_argument("--list", action="store_true", help="print the names of the cases and stop")
    return parser


def _at_least_one(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return number


def _findings(report: Path) -> list[Mapping[str, Any]] | None:
    try:
        findings = json.loads(report.read_text(encoding="utf-8"))["findings"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return findings if isinstance(findings, list) else None


def _tail(text: str, lines: int) -> str:
    """The last lines that are not blank."""
    return "\n".join([line.rstrip() for line in text.splitlines() if line.strip()][-lines:])


def _word(verdict: Verdict | None) -> str:
    return "-" if verdict is None else ("yes" if verdict.right else "[red]NO[/red]")
