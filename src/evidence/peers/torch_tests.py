"""Runs PyTorch's own tests on a virtual machine, beside the plain CPU with the same torch.

    python -m evidence peers torch --archive pytorch_2.6.0.orig.tar.xz
    python -m evidence peers torch --checkout pytorch --file autograd --all --resume FOLDER
    python -m evidence peers torch --checkout pytorch --file autograd -k test_name

The tests are those of a checkout of PyTorch or of an archive of its sources, unedited, of whatever release;
the installed torch runs them. What fails on both sides is a difference of releases and no matter of ours.
Tests that torch makes once for each kind of device are matched by the name they have without it.
`torch_reasons.json` says, file by file, of every test that does not pass on the machine though nothing fails
on the CPU, why not; its keys are as those of `peer_reasons.json`, with names without device.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import psutil

from evidence.peers.peer_reasons import Outcome, told, unaccounted
from evidence.peers.torch_tests_plugin import SETTINGS, generic, read
from evidence.places import SOURCES

_REASONS = Path(__file__).with_name("torch_reasons.json")
_MACHINE = "2x24GB"
_VALUE_LIMIT = 5 << 30
FILES = (
    *(
        "test_indexing",
        "test_view_ops",
        "test_shape_ops",
        "test_tensor_creation_ops",
        "test_torch",
        "test_nn",
        "test_modules",
    ),
    *(
        "test_autograd",
        "test_optim",
        "test_foreach",
        "test_reductions",
        "test_sort_and_select",
        "test_unary_ufuncs",
    ),
    *(
        "test_binary_ufuncs",
        "test_type_promotion",
        "test_linalg",
        "test_complex",
        "distributions/test_distributions",
    ),
    *(
        "test_dataloader",
        "test_serialization",
        "test_cuda",
        "test_cuda_multigpu",
        "distributed/test_data_parallel",
    ),
)
_SAMPLE = 200
"""Tests of a file, so that all of them end within an hour on two cores."""
_MEMORY = 14 << 30
"""Bytes that one file's process may hold; a test that wants more ends it."""
_CRASHES = 40
"""Processes that a file may take down before the rest of it is given up."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What is run of a file, and how long."""

    sample: int | None
    test_seconds: float
    file_seconds: float


@contextmanager
def tests_folder(checkout: Path | None, archive: Path | None) -> Iterator[Path]:
    """A copy of PyTorch's `test`, without the conftest that wants its own runner."""
    with tempfile.TemporaryDirectory(prefix="torch-tests-") as temporary:
        folder = Path(temporary) / "test"
        if archive:
            with tarfile.open(archive) as packed:
                inside = [member for member in packed if member.name.split("/")[1:2] == ["test"]]
                packed.extractall(temporary, inside, filter="data")
            (unpacked,) = [entry for entry in Path(temporary).iterdir() if entry.is_dir()]
            (unpacked / "test").rename(folder)
        elif checkout:
            shutil.copytree(checkout / "test" if (checkout / "test").is_dir() else checkout, folder)
        (folder / "conftest.py").unlink(missing_ok=True)
        yield folder


def run_file(
    file: str, machine: str, folder: Path, records: Path, limits: Limits, below: float | None
) -> float:
    """Run a file in as many processes as it takes down; returns the bound of its sample."""
    _forget(records, lambda line: "started" not in line)  # what a run before this one left open
    end = time.monotonic() + limits.file_seconds
    settings = {
        "records": str(records),
        "sample": limits.sample,
        "below": below,
        "seconds": limits.test_seconds,
    }
    command = [*_pytest(machine), f"{file}.py"]
    for _ in range(_CRASHES):
        before = len(read(records))
        with tempfile.TemporaryDirectory() as scratch, (records.with_suffix(".log")).open("a") as log:
            variables = {**_variables(machine), SETTINGS: json.dumps(settings), "TMPDIR": scratch}
            streams: dict[str, Any] = {
                "stdin": subprocess.DEVNULL,
                "stdout": log,
                "stderr": subprocess.STDOUT,
            }
            with subprocess.Popen(
                command, cwd=folder, env=variables, start_new_session=True, **streams
            ) as process:
                try:
                    why = _watch(process, records, limits.test_seconds, end)
                finally:
                    with suppress(ProcessLookupError):  # what its tests started ends with it
                        os.killpg(process.pid, signal.SIGKILL)
        seen = read(records)
        over = time.monotonic() > end
        if (unfinished := _unfinished(seen)) is not None and not over:
            with records.open("a") as file_of_records:
                file_of_records.write(
                    json.dumps({"test": unfinished, "outcome": "failed", "said": why, "seconds": 0.0}) + "\n"
                )
        if not why or over or not any("started" in line for line in seen[before:]):
            break
    return next((line["below"] for line in read(records) if "below" in line), 1.0)


def _watch(process: subprocess.Popen[Any], records: Path, test_seconds: float, end: float) -> str:
    """Wait for a process; says why it ended before its work was done, if it did."""
    why = ""
    with suppress(psutil.NoSuchProcess):
        own = psutil.Process(process.pid)
        while process.poll() is None and not why:
            time.sleep(0.5)
            if time.monotonic() > end:
                why = "the file took too long"
            elif own.memory_info().rss > _MEMORY:
                why = f"the process took more than {_MEMORY >> 30} GiB"
            elif _unfinished(read(records)) and time.time() - records.stat().st_mtime > 2 * test_seconds + 10:
                why = "the test took too long and could not be interrupted"
    if why:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    status = process.wait()
    return why or ("" if status in (0, 1, 5) else f"the process died of {_cause(status)}")


def _cause(status: int) -> str:
    return signal.Signals(-status).name if status < 0 else f"exit status {status}"


def _unfinished(seen: Sequence[Mapping[str, Any]]) -> str | None:
    """The test that was started last and has no outcome."""
    return seen[-1].get("started") if seen else None


def _pytest(machine: str) -> list[str]:
    # By its module and not by an installed samedevice's entry point, which need not be there.
    plugin = (
        ["-p", "no:samedevice", "-p", "samedevice.pytest_plugin", f"--machine={machine}"] if machine else []
    )
    fixed = [
        "-q",
        "-c",
        os.devnull,
        "--rootdir=.",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:xdist",
        "-p",
        "no:randomly",
        "--tb=short",
    ]
    return [sys.executable, "-m", "pytest", *plugin, "-p", "evidence.peers.torch_tests_plugin", *fixed]


def _variables(machine: str) -> dict[str, str]:
    places = [os.environ.get("PYTHONPATH", ""), str(SOURCES)]
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, places)),
        "PYTORCH_TESTING_DEVICE_ONLY_FOR": "cuda" if machine else "cpu",
        "OMP_NUM_THREADS": "1",
        "PYTHONHASHSEED": "0",
        "SAMEDEVICE_VALUE_LIMIT": str(_VALUE_LIMIT),
    }


def outcomes(records: Path) -> dict[str, Outcome]:
    """What became of each test, by its generic name."""
    found: dict[str, Outcome] = {}
    for line in read(records):
        for test in line.get("chosen", ()):
            found.setdefault(test, Outcome("not run", "the file took too long"))
        if "outcome" in line:
            found[generic(line["test"])] = Outcome(line["outcome"], line["said"])
    return found


def both(
    file: str, folder: Path, records: Path, limits: Limits, again: bool
) -> dict[str, dict[str, Outcome]]:
    """One file on the plain CPU and on the machine."""
    found: dict[str, dict[str, Outcome]] = {}
    below = None
    for label, machine in (("plain CPU", ""), (_MACHINE, _MACHINE)):
        place = records / f"{file.replace('/', '.')}.{machine or 'cpu'}.jsonl"
        if again and machine:
            _forget(place, lambda line: line.get("outcome", "passed") == "passed")
        started = time.monotonic()
        below = run_file(file, machine, folder, place, limits, below)
        found[label] = outcomes(place)
        counts = Counter(outcome.outcome for outcome in found[label].values())
        told = ", ".join(f"{count} {name}" for name, count in sorted(counts.items()))
        print(f"{label:10} {time.monotonic() - started:6.0f} s  {file}: {told}", file=sys.stderr, flush=True)
    return found


def _forget(records: Path, kept: Callable[[Mapping[str, Any]], bool]) -> None:
    """Leave only some lines."""
    if records.is_file():
        records.write_text(
            "".join(json.dumps(line) + "\n" for line in read(records) if kept(line)), encoding="utf-8"
        )


@dataclass(frozen=True, slots=True)
class Comparison:
    """One file on both sides."""

    passed_on_cpu: int
    counts: Mapping[str, int]
    """What those came to on the machine."""
    only_there: Mapping[str, int]
    """Tests that do not pass on the CPU: what they came to on the machine; those that fail on both sides are
    left out.
    """
    versions: int
    """Tests that fail on both sides."""
    open: Mapping[str, Outcome]
    """What does not pass on the machine and wants a reason."""


def compare(plain: Mapping[str, Outcome], machine: Mapping[str, Outcome]) -> Comparison:
    """What passes on the CPU and not on the machine, and what fails on the machine alone."""
    passed = [test for test, outcome in plain.items() if outcome.outcome == "passed"]
    missing = Outcome("absent", "torch does not make this test for CUDA")
    theirs = {
        test
        for test, outcome in plain.items()
        if outcome.outcome == "failed" and machine.get(test, missing).outcome == "failed"
    }
    there = {test: machine.get(test, missing) for test in passed}
    rest = {test: outcome for test, outcome in machine.items() if test not in there and test not in theirs}
    lost = {test: outcome for test, outcome in there.items() if outcome.outcome in ("failed", "skipped")}
    failed = {test: outcome for test, outcome in rest.items() if outcome.outcome == "failed"}
    return Comparison(
        passed_on_cpu=len(passed),
        counts=Counter(outcome.outcome for outcome in there.values()),
        only_there=Counter(outcome.outcome for outcome in rest.values()),
        versions=len(theirs),
        open={**lost, **failed},
    )


def table(compared: Mapping[str, Comparison]) -> list[str]:
    """One line a file: what passes on the CPU, what of that on the machine, and what only the machine
    runs.
    """
    heads = [
        "on CPU",
        "passed",
        "failed",
        "skipped",
        "absent",
        "not run",
        "share",
        "passed",
        "failed",
        "skipped",
        "both",
    ]
    lines = [
        f"{'':32}{'passed':>8}{'of these on ' + _MACHINE + ':':>48}{'the rest there:':>24}{'fail on':>8}",
        f"{'':32}{''.join(f'{head:>8}' for head in heads)}",
    ]
    for file, one in compared.items():
        counts, rest = one.counts, one.only_there
        asked = counts.get("passed", 0) + counts.get("failed", 0)
        share = f"{100 * counts.get('passed', 0) / asked:.1f} %" if asked else "-"
        numbers = [
            one.passed_on_cpu,
            *(counts.get(name, 0) for name in ("passed", "failed", "skipped", "absent", "not run")),
        ]
        others = [rest.get(name, 0) for name in ("passed", "failed", "skipped")]
        columns = [*numbers, share, *others, one.versions]
        lines.append(f"{file:32}" + "".join(f"{column:>8}" for column in columns))
    return lines


def reasons(file: str) -> dict[str, str]:
    """Why tests of a file do not pass on the machine; `any file` holds what torch says everywhere alike."""
    found: dict[str, dict[str, str]] = json.loads(_REASONS.read_text(encoding="utf-8"))
    return {**found.get("any file", {}), **found.get(file, {})}


def show(found: Mapping[str, Mapping[str, Mapping[str, Outcome]]]) -> list[str]:
    """Print the table and the reasons; returns what is not accounted for."""
    compared = {file: compare(sides["plain CPU"], sides[_MACHINE]) for file, sides in found.items()}
    print("\n".join(table(compared)))
    problems: list[str] = []
    for file, one in compared.items():
        known = reasons(file)
        lines = told(one.open, known)
        print("\n".join([f"{file}:", *lines]) if lines else "", end="\n" if lines else "")
        # A sample leaves tests out, and so reasons without a test.
        problems += unaccounted(one.open, known, whole=False)
    print("\n".join(problems), end="\n" if problems else "")
    return problems


def main(arguments: Sequence[str] | None = None) -> int:
    """Run PyTorch's own tests on the plain CPU and on a virtual machine, and account for each that passes on
    the CPU alone.
    """
    parser = argparse.ArgumentParser(
        prog="python -m evidence peers torch",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument(
        "--checkout", type=Path, metavar="FOLDER", help="PyTorch's repository, or its folder test"
    )
    source.add_argument(
        "--archive",
        type=Path,
        metavar="FILE",
        help="a source archive of PyTorch, as Debian has it (*.orig.tar.xz)",
    )
    parser.add_argument(
        "--file", action="append", default=[], metavar="WORD", help="only files with this word in their name"
    )
    parser.add_argument(
        "--sample",
        type=int,
        default=_SAMPLE,
        metavar="N",
        help=f"at most so many tests of a file (default {_SAMPLE})",
    )
    parser.add_argument("--all", action="store_true", help="every test")
    parser.add_argument(
        "--test-seconds", type=float, default=30.0, metavar="S", help="time limit of a test (default 30)"
    )
    parser.add_argument(
        "--file-seconds",
        type=float,
        default=600.0,
        metavar="S",
        help="time limit of a file on one side (default 600)",
    )
    parser.add_argument("--jobs", type=int, default=2, metavar="N", help="files at once (default 2)")
    parser.add_argument(
        "--resume", type=Path, metavar="FOLDER", help="keep outcomes here, and do not run again what is there"
    )
    parser.add_argument(
        "--again", action="store_true", help="with --resume: run again what did not pass on the machine"
    )
    parser.add_argument(
        "-k", metavar="EXPRESSION", help="run these tests on the machine only and show what pytest says"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every outcome there, too")
    given = parser.parse_args(arguments)
    files = [file for file in FILES if not given.file or any(word in file for word in given.file)]
    if not files:
        parser.error(f"no file has such a name; there are: {', '.join(FILES)}")
    if given.again and not given.resume:
        parser.error("--again wants --resume")
    limits = Limits(None if given.all else given.sample, given.test_seconds, given.file_seconds)
    with ExitStack() as stack:
        folder = stack.enter_context(tests_folder(given.checkout, given.archive))
        if given.k:
            command = [*_pytest(_MACHINE), "-k", given.k, *(f"{file}.py" for file in files)]
            return subprocess.run(command, cwd=folder, env=_variables(_MACHINE), check=False).returncode
        records = given.resume or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        records.mkdir(parents=True, exist_ok=True)
        with ThreadPoolExecutor(given.jobs) as pool:
            run = partial(both, folder=folder, records=records, limits=limits, again=given.again)
            found = dict(zip(files, pool.map(run, files), strict=True))
    if given.json:
        given.json.write_text(json.dumps(found, default=asdict, indent=1) + "\n", encoding="utf-8")
    return 1 if show(found) else 0
