"""A launch plan that is chosen by formula holds for real FSDP2 steps of the whole model on that machine.

Time: some minutes.
Needs: transformers; no download.

    python -m evidence memory-plans [--machine 8xA100-80G] [--context 4096] [--batch 64]

The models have the shape of Qwen2.5-7B and 72B. Each plan is chosen by formula; then rank 0 takes two whole
training steps on a virtual GPU of that machine, where what does not fit raises `torch.OutOfMemoryError`. The
last column is how far the formula is from the ledger.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from dataclasses import replace

from evidence.commands import command_parser
from evidence.memory.deepspeed_estimates import SHAPES
from samedevice.machines import parse_machine
from samedevice.messages import Bytes
from samedevice.planner import Training, TrainingShape, choose_launch, measure_step
from samedevice.report import render


def main(arguments: Sequence[str] | None = None) -> int:
    """Choose each plan, take its steps, print both."""
    parser = command_parser(__name__, __doc__)
    parser.add_argument("--machine", default="8xA100-80G")
    parser.add_argument("--context", type=int, default=4096)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--only", default="")
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    machine = parse_machine(options.machine)
    for name, config in SHAPES.items():
        if options.only not in name:
            continue
        plan = choose_launch(
            TrainingShape.from_config(config, name),
            machine,
            Training(context=options.context),
            global_batch=options.batch,
        )
        print(f"{name} on {machine.spec}")
        for sentence in map(render, plan.explain()):
            print(f"  {sentence}")
        # What a step accumulates is the same from the second micro-batch on.
        began = time.perf_counter()
        measured = measure_step(
            config, machine, replace(plan.training, accumulation=min(2, plan.training.accumulation))
        )
        took = time.perf_counter() - began
        print(
            f"  ledger: forward {Bytes(measured.forward)}, backward {Bytes(measured.backward)}, step "
            f"{Bytes(measured.step)}; formula "
            f"{Bytes(plan.estimate.peak)}, {plan.estimate.peak / measured.peak - 1:+.2%}; {took:.0f} s",
            flush=True,
        )
    return 0
