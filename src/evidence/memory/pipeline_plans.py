"""Plans for diffusion pipelines beside diffusers' own placement, on the same machines.

Time: about two minutes.
Needs: diffusers, transformers, accelerate; no download.

    python -m evidence pipeline-plans [--only NAME ...] [--gpus 2 4 8]

A pipeline in its own size of picture, on 2, 4 and 8 GPUs of the smallest size on which half of the memory is
left and each component fits. diffusers is asked as its users ask it, with `device_map="balanced"`, inside the
virtual machine. `load` is the largest load of a GPU over that of the plan, by calculation; `idle` the GPUs
that get nothing; `ran` the largest peak of a GPU in a trial of two steps, `found` its findings. Fails where
diffusers' placement has a smaller largest load.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from evidence.commands import command_parser
from samedevice.machines import Machine, parse_machine
from samedevice.messages import Bytes
from samedevice.planner.inference import RESERVE
from samedevice.planner.pipelines import (
    Picture,
    PipelineProfile,
    PipelineSource,
    automatic_map,
    find_pipeline,
    load_of,
    place_whole,
    profile_pipeline,
    prove_pipeline,
)

NAMES = ("black-forest-labs/FLUX.1-schnell",)
"""Pipelines whose configurations come with samedevice."""
SIZES = (4, 6, 8, 12, 16, 24, 32, 48, 80, 141, 288)
"""GB of a GPU."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Compare all pipelines, print a table, and fail where diffusers' placement is better than the plan."""
    parser = command_parser(__name__, __doc__)
    parser.add_argument("--only", nargs="+", default=[""], metavar="NAME", help="part of a pipeline's name")
    parser.add_argument("--gpus", type=int, nargs="+", default=[2, 4, 8])
    options = parser.parse_args(arguments)
    least = 1.0
    for name in NAMES:
        if not any(part in name for part in options.only):
            continue
        source, began = find_pipeline(name), time.perf_counter()
        profile = profile_pipeline(source, Picture())
        print(f"{name}: measured in {time.perf_counter() - began:.0f} s", flush=True)
        for count in options.gpus:
            machine = fitting(profile, count)
            if machine is None:
                print(f"  does not fit on {count} GPUs of any size", flush=True)
                continue
            print(f"  {machine.spec}", flush=True)
            least = min(least, *rows(source, profile, machine))
    print(f"smallest largest load of diffusers' placement: {least:.4f} of the plan's")
    return int(least < 1.0)


def fitting(profile: PipelineProfile, count: int) -> Machine | None:
    """So many GPUs of the smallest size that is half empty and holds each component; None where none is."""
    kept = sum(each.weights for each in profile.components)
    for size in SIZES:
        machine = parse_machine(f"{count}x{size}GB")
        budgets = [gpu.total_memory - RESERVE for gpu in machine.gpus]
        if (
            size * count << 30 >= 2 * kept
            and place_whole(profile.components, budgets, profile.held).room >= 0
        ):
            return machine
    return None


def rows(source: PipelineSource, profile: PipelineProfile, machine: Machine) -> list[float]:
    """Print both placements, and tell their largest loads as parts of the plan's."""
    budgets = [gpu.total_memory - RESERVE for gpu in machine.gpus]
    began = time.perf_counter()
    ours = place_whole(profile.components, budgets, profile.held).gpus
    took = [time.perf_counter() - began]
    began = time.perf_counter()
    theirs = automatic_map(source, machine)
    took.append(time.perf_counter() - began)
    best = max(loads_of(profile, ours).values())
    parts = []
    for who, places, seconds in zip(("plan", "diffusers, balanced"), (ours, theirs), took, strict=True):
        loads = loads_of(profile, places)
        whole = {name: place for name, place in places.items() if isinstance(place, int)}
        said = "components on the host: not run"
        if len(whole) == len(profile.components):
            proof = prove_pipeline(source, machine, whole, Picture())
            most = max(peak.allocated for peak in proof.peaks)
            said = f"ran {Bytes(most)}  found {len(proof.events)}  {proof.error or ''}"
            parts.append(max(loads.values()) / best)
        print(
            f"    {who:20} load {max(loads.values()) / best:5.2f}  idle {len(machine.gpus) - len(loads)}"
            f"  {seconds:6.3f} s  {said}  {dict(places)}",
            flush=True,
        )
    return parts


def loads_of(profile: PipelineProfile, places: Mapping[str, int | str]) -> dict[int, int]:
    """Peak of each GPU that holds something, by calculation."""
    home = profile.components[0].name
    loads = {}
    for gpu in {place for place in places.values() if isinstance(place, int)}:
        own = [each for each in profile.components if places.get(each.name) == gpu]
        loads[gpu] = load_of(own, profile.held if any(each.name == home for each in own) else 0)
    return loads
