"""Plans for diffusion pipelines beside diffusers' own placement, on the same machines.

Time: about five minutes.
Needs: diffusers, transformers, accelerate; no download.

    python -m evidence pipeline-plans [--only NAME ...] [--machines 2x24GB 2x32GB 2x80GB]

Each pipeline whose configurations come with samedevice, in its own size of picture and number of frames.
Both are run inside the virtual machine: the plan (`samedevice plan`), and what its users ask diffusers for,
`device_map="balanced"`. The table has what the plan is (components on GPUs, or an offload), the largest peak
of a GPU of both, that of `balanced` over the plan's, and what goes wrong with `balanced`: out of memory,
findings, another picture, components that it leaves on the host. Fails where `balanced` holds and has a
smaller largest peak than a plan of whole components.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

from evidence.commands import command_parser
from samedevice.machines import Machine, parse_machine
from samedevice.planner.inference import Proof
from samedevice.planner.pipelines import (
    Picture,
    PipelinePlan,
    place_pipeline,
    prove_balanced,
    shipped_pipelines,
)
from samedevice.report import render

MACHINES = ("2x24GB", "2x32GB", "2x80GB")
_SAME = 0.999
"""Peaks this near are equal."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Compare all pipelines, print a table, and fail where diffusers' placement is better than the plan."""
    parser = command_parser(__name__, __doc__)
    parser.add_argument("--only", nargs="+", default=[""], metavar="NAME", help="part of a pipeline's name")
    parser.add_argument("--machines", nargs="+", default=MACHINES, metavar="SPEC")
    options = parser.parse_args(arguments)
    print("| pipeline | machine | plan | its peak, GiB | balanced, GiB | over the plan's | balanced |")
    print("|---|---|---|--:|--:|--:|---|", flush=True)
    began, better = time.perf_counter(), 0
    for name in shipped_pipelines():
        if not any(part in name for part in options.only):
            continue
        for machine in map(parse_machine, options.machines):
            plan = place_pipeline(name, machine, Picture())
            proof = prove_balanced(plan.source, machine, Picture(), plan.profile.made)
            better += compared(plan, proof, machine)
    print(f"better than the plan: {better}; {time.perf_counter() - began:.0f} s")
    return int(better > 0)


def compared(plan: PipelinePlan, balanced: Proof, machine: Machine) -> bool:
    """Print a row; whether diffusers' placement is better."""
    wrong = ", ".join(_wrong(plan, balanced))
    theirs = max((peak.allocated for peak in balanced.peaks), default=None)
    ours = max(share.peak.allocated for share in plan.shares if share.peak) if plan.proved else None
    over = None if theirs is None or ours is None or _host(plan, balanced) else theirs / ours
    cells = (
        plan.source.name.partition("/")[2],
        machine.spec,
        _kind(plan),
        _gib(ours),
        _gib(theirs),
        "-" if over is None else f"{over:.2f}",
        wrong or "holds",
    )
    print(f"| {' | '.join(cells)} |", flush=True)
    return not wrong and (not plan.proved or (plan.chosen is None and over is not None and over < _SAME))


def _kind(plan: PipelinePlan) -> str:
    if not plan.proved:
        return "none"
    return "whole components" if plan.chosen is None else f"`{plan.chosen.offload.call()}`"


def _wrong(plan: PipelinePlan, balanced: Proof) -> Iterator[str]:
    """What does not work with diffusers' placement."""
    if balanced.out_of_memory:
        yield "out of memory"
    if host := _host(plan, balanced):
        yield f"on the host: {', '.join(host)}"
    if balanced.events:
        yield f"findings: {len(balanced.events)}"
    if balanced.error is not None:
        yield balanced.error.splitlines()[0]
    if balanced.different is not None:
        yield render(balanced.different)
    if any(peak.allocated > share for peak, share in zip(balanced.peaks, _budgets(plan), strict=False)):
        yield "no room for what CUDA takes"


def _host(plan: PipelinePlan, balanced: Proof) -> list[str]:
    """Components that diffusers leaves on the host."""
    if balanced.out_of_memory:
        return []
    return [name for name in plan.source.models if not isinstance(balanced.device_map.get(name), int)]


def _budgets(plan: PipelinePlan) -> list[int]:
    return [gpu.total_memory - plan.reserve for gpu in plan.machine.gpus]


def _gib(size: int | None) -> str:
    return "-" if size is None else f"{size / (1 << 30):.1f}"
