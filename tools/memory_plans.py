"""Launch plans for models of the shape of Qwen2.5-7B and 72B, proved by real FSDP2 training steps of the
whole model on that machine.

    python -m tools.memory_plans [--machine 8xA100-80G] [--context 4096] [--batch 64]

Each plan is chosen by formula; then rank 0 takes two whole training steps on a virtual GPU of that machine,
where what does not fit raises `torch.OutOfMemoryError`. The last column is how far the formula is from the
ledger. For 72B that takes some minutes.
"""

from __future__ import annotations

import argparse
import time
import warnings
from dataclasses import replace

from samedevice.machines import parse_machine
from samedevice.planner import Training, TrainingShape, choose_launch, gib, measure_step
from tools.deepspeed_estimates import SHAPES


def main() -> None:
    parser = argparse.ArgumentParser(description="Plans and their proof.")
    parser.add_argument("--machine", default="8xA100-80G")
    parser.add_argument("--context", type=int, default=4096)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--only", default="")
    options = parser.parse_args()
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
        for sentence in plan.explain():
            print(f"  {sentence}")
        # What a step accumulates is the same from the second micro-batch on.
        began = time.perf_counter()
        measured = measure_step(
            config, machine, replace(plan.training, accumulation=min(2, plan.training.accumulation))
        )
        took = time.perf_counter() - began
        print(
            f"  ledger: forward {gib(measured.forward)}, backward {gib(measured.backward)}, step "
            f"{gib(measured.step)}; formula "
            f"{gib(plan.estimate.peak)}, {plan.estimate.peak / measured.peak - 1:+.2%}; {took:.0f} s",
            flush=True,
        )


if __name__ == "__main__":
    main()
