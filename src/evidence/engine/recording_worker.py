"""A worker of `record-rules`: runs cases, says on stdout what it is at, notes what comes of it."""

from __future__ import annotations

import contextlib
import os
import resource
import subprocess
from collections.abc import Callable, Sequence
from typing import Any

import torch

from evidence.engine import rule_cases
from evidence.engine.recorders import FATAL
from evidence.engine.recordings import Journals, Written
from samedevice.events import EventKind
from samedevice.machines import parse_machine
from samedevice.runtime import VirtualMachine


def work(
    journals: Journals, number: int, turns: int, only: str, again: str | None, kinds: Sequence[str]
) -> int:
    """Record the operator that was begun, and then those whose turn it is; the exit status.

    Where the GPU's context is lost, the process ends at once: Python's own end could hang on it.
    """
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a dump of a process with a GPU takes minutes
    written = journals.read()
    about = about_virtual() if journals.virtual else about_gpu()
    if not journals.virtual:
        rule_cases.synchronize()  # no case is to blame for a GPU that cannot be used
    if written.machine not in ({}, about):
        raise SystemExit(f"the journals beside {journals.recording} are of another machine")
    names = [name for name in rule_cases.names(kinds) if only in name]
    with journals.noting(number) as note:
        note(machine=about)
        if again and not recorded(again, written, journals.virtual, note, kinds):
            os._exit(FATAL)
        for turn in iter(lambda: os.read(turns, 4), b""):
            if (place := int.from_bytes(turn)) >= len(names):
                break
            name = names[place]
            if name not in written.done and not recorded(name, written, journals.virtual, note, kinds):
                os._exit(FATAL)
    return 0


def recorded(
    name: str, written: Written, virtual: bool, note: Callable[..., None], kinds: Sequence[str]
) -> bool:
    """Run an operator's cases that the journals lack; whether the GPU can still be used."""
    print(f"operator {name}", flush=True)
    todo = [(case, call) for case, call in rule_cases.cases(name, kinds) if case.key not in written.results]
    with machine() if virtual else contextlib.nullcontext() as virtual_machine:
        for case, call in todo:
            if case.sample_key not in written.samples:
                written.samples[case.sample_key] = rule_cases.digest(call)
                note(sample=case.sample_key, digest=written.samples[case.sample_key])
            print(f"at {case.key}", flush=True)
            result = (
                rule_cases.run(case, call)
                if virtual_machine is None
                else run_virtual(virtual_machine, case, call)
            )
            fatal = result.pop("fatal", False)
            note(key=case.key, **result)
            print("recorded", flush=True)
            if fatal:
                return False
    note(done=name)
    return True


def machine() -> VirtualMachine:
    """A virtual machine that raises what CUDA would raise."""
    return VirtualMachine(parse_machine("2x24GB"), on_mismatch="raise")


def run_virtual(virtual: Any, case: rule_cases.Case, call: rule_cases.AnyCall) -> dict[str, Any]:
    """What comes of a case on a virtual machine, a kernel that checks nothing included: on a GPU a fault or
    wrong results, here an event that raised nothing.
    """
    before = [*virtual.event_counts]
    result = rule_cases.run(case, call)
    before += [0] * (len(virtual.event_counts) - len(before))
    unchecked = [
        event.message
        for event, count, had in zip(virtual.events, virtual.event_counts, before, strict=True)
        # what is filled by nobody is told, and is what a GPU gives
        if count != had and event.kind is not EventKind.UNMATERIALIZED
    ]
    if result["outcome"] == "ok" and unchecked:
        return {"outcome": "crash", "type": "", "message": unchecked[-1]}
    return result


def about_gpu() -> dict[str, Any]:
    """What is recorded on."""
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
    """The same, where there is no GPU."""
    return {"gpu": "virtual", "torch": str(torch.__version__)}
