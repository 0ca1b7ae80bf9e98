"""Rounds of small virtual tensors that are made and dropped, for `leaks`."""

from __future__ import annotations

import argparse
import gc
import json
import resource
import time
from pathlib import Path

import torch

import samedevice
from samedevice.machines import parse_machine
from samedevice.runtime import VirtualMachine

GROWTH_LIMIT = 8 << 20
"""Bytes; a leak of eight bytes a tensor would show."""
_PAGE = resource.getpagesize()


def resident() -> int:
    """Bytes of this process in memory now."""
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * _PAGE


def a_round() -> int:
    """Make and drop some tensors; how many."""
    made = torch.ones(8, device="cuda:0", requires_grad=True)  # 1
    doubled = made * 2  # 2
    moved = doubled.to("cuda:1")  # 3
    view = moved[2:6]  # 4
    host = torch.arange(4.0)  # 5
    back = host.to("cuda:1")  # 6
    total = (view + back).sum()  # 7, 8
    total.backward()  # 9 and more
    with torch.no_grad():
        doubled.add_(1)
    assert made.grad is not None
    return 9


def run(arguments: argparse.Namespace) -> int:
    """Make the tensors and print what the process and the ledger hold; 1 when something leaked."""
    print(f"torch {torch.__version__}, samedevice {samedevice.__version__}")
    started = time.perf_counter()
    made, first, resident_now = 0, 0, 0
    figures: list[tuple[int, int]] = []
    machine = VirtualMachine(parse_machine("2x24GB"))
    with machine:
        while made < arguments.tensors:
            goal = min(made + arguments.step, arguments.tensors)
            while made < goal:
                made += a_round()
            gc.collect()
            resident_now = resident()
            first = first or resident_now
            figures.append((made, resident_now))
            print(f"  {made:9} tensors  {resident_now / (1 << 20):8.1f} MiB resident", flush=True)
        gc.collect()
        allocated = {device: memory.allocated for device, memory in machine.memory().items()}
    growth = resident_now - first
    held = sum(allocated.values())
    print(
        f"  {time.perf_counter() - started:.0f} s, grown by {growth / 1024:.0f} KiB since the first line, "
        f"ledger {allocated}"
    )
    if arguments.json:
        arguments.json.write_text(
            json.dumps({"resident": figures, "allocated": allocated}, indent=1), encoding="utf-8"
        )
    leaked = growth > GROWTH_LIMIT or held or machine.events
    print("leaks" if leaked else "nothing leaks")
    return 1 if leaked else 0
