"""Records what a real CUDA GPU does when one argument of an operator is on the CPU, to hold the rules to it.

Time: not measured on a GPU yet; `--minutes` stops it, and another run goes on.
Needs: an NVIDIA GPU (none with `--self-check`), torch 2.11 or newer, numpy, expecttest.

    python -m evidence record-rules RECORDING.json.gz [--only TEXT] [--minutes N]
    python -m evidence record-rules RECORDING.json.gz --self-check      # on a virtual machine

Every entry of torch's operator database is run, with each tensor argument (members of lists too) on the CPU
and the rest on the GPU, as it is and as a 0-dim tensor, and with `out=` on the CPU. Each case runs in a
worker process with a synchronization after it; when a kernel faults or takes the process down, the case is
recorded as such and a new worker goes on with the next one. What is recorded by the time it is stopped
(`--minutes`, Ctrl-C) is in RECORDING, too.
"""

from __future__ import annotations

import argparse
import contextlib
import gzip
import json
import os
import selectors
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any

from packaging.version import Version

from evidence.commands import command_parser
from evidence.places import ROOT

FORMAT = 1
PATIENCE = 120.0
"""Seconds without a result after which a worker counts as hung."""
FATAL = 3
"""Exit status of a worker whose GPU context is lost."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Drive workers until every case has its outcome; the exit status."""
    parser = command_parser(__name__, __doc__)
    parser.add_argument("recording", type=Path)
    parser.add_argument("--only", default="", help="operators whose name holds this text")
    parser.add_argument(
        "--minutes", type=float, default=float("inf"), help="stop after that time; run again to go on"
    )
    parser.add_argument("--self-check", action="store_true", help="record a virtual machine instead of a GPU")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    options.recording = options.recording.resolve()
    journal = options.recording.with_suffix(
        ".virtual.partial.jsonl" if options.self_check else ".partial.jsonl"
    )
    if options.worker:
        return work(journal, options.only, virtual=options.self_check)
    if not options.self_check:
        refuse_without_gpu()
    options.recording.parent.mkdir(parents=True, exist_ok=True)
    started = time.monotonic()
    while (left := options.minutes * 60 - (time.monotonic() - started)) > 0:
        try:
            status = supervise(options.recording, options.only, options.self_check, left, journal)
        except KeyboardInterrupt:
            break
        if status == 0:
            pack(journal, options.recording, virtual=options.self_check)
            journal.unlink()
            return 0
        if status not in (FATAL, None) and status > 0:
            print(f"the worker failed with exit status {status}; what it printed is above", file=sys.stderr)
            return 1
    if journal.exists():
        pack(journal, options.recording, virtual=options.self_check)  # what there is so far
    print(f"\nstopped; run again to go on ({len(read_journal(journal)[0])} cases are in {journal})")
    return 4


def refuse_without_gpu() -> None:
    """End with a sentence where recording would record nothing."""
    import torch

    if not torch.cuda.is_available():
        raise SystemExit("no CUDA GPU here: use --self-check to try the recorder on a virtual machine")
    if Version(torch.__version__).release < (2, 11):
        raise SystemExit(f"torch {torch.__version__} is too old, 2.11 or newer is needed")


def supervise(recording: Path, only: str, virtual: bool, seconds: float, journal: Path) -> int | None:
    """One worker's life; its exit status, or None when it died or hung and the next should go on after the
    case it was at.
    """
    command = [sys.executable, "-m", "evidence", "record-rules", str(recording), "--worker", "--only", only]
    deadline = time.monotonic() + seconds
    worker = subprocess.Popen(
        [*command, *(["--self-check"] if virtual else [])], cwd=ROOT, stdout=subprocess.PIPE, bufsize=0
    )
    assert worker.stdout is not None
    at: str | None = None
    why = "hung"
    half = b""
    with selectors.DefaultSelector() as selector, killed(worker):
        selector.register(worker.stdout, selectors.EVENT_READ)
        while True:
            wait = min(PATIENCE, deadline - time.monotonic())
            if wait <= 0 or not selector.select(wait):
                if wait < PATIENCE:
                    return None
                break
            chunk = os.read(worker.stdout.fileno(), 1 << 16)
            if not chunk:
                status = worker.wait()
                if status >= 0:
                    return status
                why = f"died of signal {-status}"
                break
            *lines, half = (half + chunk).split(b"\n")
            for line in (each.decode(errors="replace") for each in lines):
                if line.startswith("at "):
                    at = line[3:].strip()
                elif line.startswith("operator "):
                    print(f"\r{line.strip()[9:]:70}", end="", flush=True)
    if at is None:
        raise SystemExit(f"the worker {why} before its first case")
    with journal.open("a", encoding="utf-8") as file:
        file.write(
            "\n" + json.dumps({"key": at, "outcome": "crash", "type": "", "message": why}) + "\n"
        )  # after a half line, maybe
    return None


@contextlib.contextmanager
def killed(worker: subprocess.Popen[bytes]) -> Iterator[None]:
    """Leaves no worker behind, an interrupted one neither."""
    try:
        yield
    finally:
        worker.kill()
        worker.wait()


def work(journal: Path, only: str, *, virtual: bool) -> int:
    """Run the cases that the journal lacks, in order; each is announced before it runs."""
    from evidence.engine import op_cases, rule_cases

    done, broken = read_journal(journal)
    with journal.open("a", encoding="utf-8") as file:
        if broken:
            file.write("\n")  # a killed worker's half line ends here
        for name in op_cases.operators():
            if only not in name:
                continue
            todo = [(case, call) for case, call in rule_cases.cases(name) if case.key not in done]
            if not todo:
                continue
            print(f"operator {name}", flush=True)
            with machine() if virtual else contextlib.nullcontext() as virtual_machine:
                for case, call in todo:
                    print(f"at {case.key}", flush=True)
                    seen = sum(virtual_machine.event_counts) if virtual_machine is not None else 0
                    result = rule_cases.run(case, call)
                    if virtual_machine is not None and result["outcome"] == "ok":
                        result = unchecked(virtual_machine, seen) or result
                    fatal = result.pop("fatal", False)
                    file.write(json.dumps({"key": case.key, **result}) + "\n")
                    file.flush()
                    if fatal:
                        return FATAL
    return 0


def machine() -> Any:
    """A virtual machine that raises what CUDA would raise."""
    from samedevice.machines import parse_machine
    from samedevice.runtime import VirtualMachine

    return VirtualMachine(parse_machine("2x24GB"), on_mismatch="raise")


def unchecked(virtual: Any, seen: int) -> dict[str, Any] | None:
    """The outcome of a kernel that checks nothing, on a GPU a fault or wrong results: an event that raised
    nothing.
    """
    if sum(virtual.event_counts) == seen:
        return None
    return {"outcome": "crash", "type": "", "message": virtual.events[-1].message}


def read_journal(journal: Path) -> tuple[dict[str, dict[str, Any]], int]:
    """Results by case, and the number of lines that could not be read (the last one of a killed worker)."""
    found: dict[str, dict[str, Any]] = {}
    broken = 0
    if journal.exists():
        for line in journal.read_text(encoding="utf-8").splitlines():
            if not line:
                continue
            try:
                result = json.loads(line)
            except ValueError:
                broken += 1
                continue
            found[result.pop("key")] = result
    return found, broken


def pack(journal: Path, recording: Path, *, virtual: bool) -> None:
    """Write the recording: what machine, and the results with each distinct one once."""
    results, _ = read_journal(journal)
    distinct: dict[str, int] = {}
    numbers = {
        key: distinct.setdefault(json.dumps(result, sort_keys=True), len(distinct))
        for key, result in results.items()
    }
    whole = {
        "format": FORMAT,
        "machine": about_virtual() if virtual else about_gpu(),
        "results": [json.loads(text) for text in distinct],
        "cases": numbers,
    }
    with writing(recording) as file:
        json.dump(whole, file, separators=(",", ":"))
    outcomes = Counter(result["outcome"] for result in results.values())
    print(
        f"\r{len(results)} cases: "
        f"{', '.join(f'{count} {outcome}' for outcome, count in outcomes.most_common())}"
    )
    print(f"{recording}: {recording.stat().st_size / 1024:.0f} KiB")


@contextlib.contextmanager
def writing(recording: Path) -> Iterator[IO[str]]:
    """The file, complete or not there at all."""
    partial = recording.with_suffix(".writing")
    with gzip.open(partial, "wt", encoding="utf-8", compresslevel=9) as file:
        yield file
    partial.replace(recording)


def about_gpu() -> dict[str, Any]:
    """What was recorded on."""
    import torch

    driver = subprocess.run(
        ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"],
        capture_output=True,
        text=True,
        check=False,
    )
    properties = torch.cuda.get_device_properties(0)
    return {
        "gpu": properties.name,
        "capability": f"{properties.major}.{properties.minor}",
        "driver": driver.stdout.split("\n")[0].strip(),
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "cudnn": torch.backends.cudnn.version(),
    }


def about_virtual() -> dict[str, Any]:
    """The same, where there was no GPU."""
    import torch

    return {"gpu": "virtual", "torch": torch.__version__}
