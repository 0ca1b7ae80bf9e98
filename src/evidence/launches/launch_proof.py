"""Real launchers on a virtual machine train small models to the parameters of the plain CPU over gloo.

Time: some minutes.
Needs: transformers, accelerate; for its kinds deepspeed (with `DS_BUILD_OPS=0` it builds nothing).

    python -m evidence launch-proof [KIND ...] [--ranks 2]

Each kind trains three steps with clipped gradients, saves a checkpoint, overwrites its parameters, loads it
again, and tells losses and parameters. The CPU runs the same script under the same launcher without
samedevice. DeepSpeed's kinds are left out where it is not installed. FSDP1 has no CPU run of its own in torch
2.13: it is compared with DDP's. Exit status: 0 all agree to 1e-6, 1 not so.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from evidence.commands import command_parser
from evidence.places import ROOT, SOURCES

LAUNCHERS = {
    "ddp": "torchrun", "fsdp1": "torchrun", "fsdp1-offload": "torchrun", "fsdp2": "torchrun",
    "fsdp2-meta": "torchrun", "sync-bn":
    "torchrun", "trainer": "torchrun",
    "accelerate-ddp": "accelerate", "accelerate-fsdp2": "accelerate",
    "zero1": "deepspeed", "zero2": "deepspeed", "zero3": "deepspeed", "zero3-init-bf16": "deepspeed",
}  # fmt: skip
REFERENCE = {
    "fsdp1": "ddp", "fsdp1-offload": "ddp", "fsdp2-meta": "fsdp2", "accelerate-fsdp2": "accelerate-ddp"
}  # fmt: skip
OPTIONS = {
    "accelerate-fsdp2": "--use_fsdp --fsdp_version 2 "
    "--fsdp_auto_wrap_policy SIZE_BASED_WRAP --fsdp_min_num_params 50"
}
TOLERANCE = 1e-6


def main(arguments: Sequence[str] | None = None) -> int:
    """Run every kind both ways and print a table."""
    parser = command_parser(__name__, __doc__)
    parser.add_argument("kinds", nargs="*", metavar="KIND", help=", ".join(LAUNCHERS))
    parser.add_argument("--ranks", type=int, default=2)
    given = parser.parse_args(arguments)
    print(
        f"{'kind':18} {'launcher':10} {'parameters differ by':>20} {'losses by':>10} {'CPU s':>6} "
        f"{'virtual s':>9}"
    )
    good = True
    for kind in given.kinds or LAUNCHERS:
        if LAUNCHERS[kind] == "deepspeed" and find_spec("deepspeed") is None:
            print(f"{kind:18} deepspeed is not installed")
            continue
        here, seconds_here = _run(REFERENCE.get(kind, kind), given.ranks, virtual=False)
        there, seconds_there = _run(kind, given.ranks, virtual=True)
        names = {name: _plain_name(name) for name in there["parameters"]}
        mine = {names[name]: values for name, values in there["parameters"].items()}
        apart = max(_apart(values, mine[_plain_name(name)]) for name, values in here["parameters"].items())
        lost = _apart(here["losses"], there["losses"])
        good = good and max(apart, lost) <= TOLERANCE
        print(
            f"{kind:18} {LAUNCHERS[kind]:10} {apart:20.2g} {lost:10.2g} {seconds_here:6.0f} "
            f"{seconds_there:9.0f}",
            flush=True,
        )
    return 0 if good else 1


def _plain_name(name: str) -> str:
    return name.replace("_fsdp_wrapped_module.", "").removeprefix("module.")


def _apart(one: list[float], other: list[float]) -> float:
    assert len(one) == len(other), (len(one), len(other))
    return max((abs(a - b) for a, b in zip(one, other, strict=True)), default=0.0)


def _run(kind: str, ranks: int, *, virtual: bool) -> tuple[dict[str, Any], float]:
    from samedevice.ranks import launch_command

    script = str(Path(__file__).with_name("trained_rank.py"))
    launcher = LAUNCHERS[kind]
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        path = os.pathsep.join([str(SOURCES), str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
        environment = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1", "DS_BUILD_OPS": "0"}
        if virtual:
            options = ["--launcher-args", OPTIONS[kind]] if kind in OPTIONS else []
            head = [
                sys.executable,
                "-m",
                "samedevice",
                "run",
                "--machine",
                f"{ranks}x24GB",
                "--launcher",
                launcher,
                "--nproc",
                str(ranks),
            ]
            command = [*head, *options, script, kind, folder]
        else:  # no launcher but torchrun starts several processes on a CPU without more ado
            environment["DS_ACCELERATOR"] = "cpu"
            environment["ACCELERATE_USE_CPU"] = "true"
            command = launch_command("torchrun", ranks, [], [script, kind, folder], module=False)
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        told = Path(folder) / "told.json"
        # On the CPU gloo's destructor may abort a process of plain torch that has told everything.
        if not told.is_file() or (virtual and done.returncode != 0):
            raise SystemExit(
                f"{kind} ({'virtual' if virtual else 'CPU'}) ended with "
                f"{done.returncode}:\n{done.stderr[-6000:]}"
            )
        found: dict[str, Any] = json.loads(told.read_text())
        return found, time.monotonic() - started
