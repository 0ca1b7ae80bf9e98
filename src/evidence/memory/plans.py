"""Device maps of plans beside those of accelerate and transformers, on the same machines.

Time: about fifteen minutes; with --trials much longer.
Needs: transformers, accelerate; no download.

    python -m evidence plans [--only NAME ...] [--gpus 2 4 8] [--trials]

Models at their published sizes, each on 2, 4 and 8 GPUs of the smallest size on which half of the memory is
left. The plan is the best by its certificate; the others are asked as their users ask them, inside
the virtual machine. `load` is the largest load of a GPU over that of the plan, `idle` the GPUs that get
nothing, `longest` the longest prompt before a GPU runs out of memory, on a straight line between measured
lengths, `seconds` the time to find the map. With --trials every map loads and runs: `found` are the findings,
`fits` says whether 2,048 tokens do, and `ran` is the longest prompt that was run and fitted, with the
shortest one that was run and did not; the plan is then that of `samedevice plan`, with what its own trials
taught. A model's own limit of tokens is not asked. Of a model that reads sound, in windows of one length,
batches take the place of prompts: loads are those of 4 sequences, and `longest` is the largest batch.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from evidence.commands import command_parser
from samedevice.machines import Machine, parse_machine
from samedevice.planner.inference import (
    RESERVE,
    Block,
    Loads,
    Profile,
    Proof,
    Slot,
    Workload,
    build_model,
    check_map,
    divide,
    find_model,
    measuring,
    model_class,
    place_model,
    reads_sound,
)
from samedevice.provenance.dispatch import mapped

NAMES = (
    *(f"Qwen/Qwen2.5-{size}-Instruct" for size in ("0.5B", "1.5B", "3B", "7B", "14B", "32B", "72B")),
    *(f"meta-llama/Llama-{size}" for size in ("3.2-1B", "3.1-8B", "3.1-70B", "3.1-405B")),
    "mistralai/Mixtral-8x7B-v0.1", "deepseek-ai/DeepSeek-V2-Lite", "google/gemma-2-2b",
    "Qwen/Qwen2.5-VL-7B-Instruct", "google/flan-t5-xxl", "openai/whisper-large-v3",
)  # fmt: skip
"""Models whose configurations come with samedevice."""
TEXT_PARTS: Mapping[str, Mapping[str, Any]] = json.loads(
    Path(__file__).with_name("plan_models.json").read_text("utf-8")
)
"""Models with embeddings for each layer, without their parts for pictures and sound."""
SIZES = (4, 6, 8, 12, 16, 24, 32, 48, 80, 141, 288)
"""GB of a GPU."""
LENGTHS = (256, 2048, 16384, 131072)
"""Tokens of a prompt that are measured."""
BATCHES = (1, 4, 16, 64)
"""Sequences that are measured of a model that reads sound."""
NEW_TOKENS = 32
_NEAR = 0.02
"""Prompts so much shorter and longer than the calculated one are run first."""
_HALVINGS = (0,) * 6
"""Then so many between the longest that fitted and the shortest that did not."""
_TOLERANCE = 0.99
"""The plan is the best one in the order of execution; a map that puts a rotary table, which runs at the
start, on the last GPU may have a load that is smaller by that table's needs.
"""
AT = 2048
"""Tokens of a prompt for which loads are compared."""
Places = Mapping[str, int | str]


@dataclass(frozen=True)
class Row:
    """One map on one machine."""

    who: str
    load: float
    idle: int
    longest: int | None
    seconds: float
    note: str
    trial: Trial | None = None


@dataclass(frozen=True)
class Trial:
    """What running by a map showed."""

    findings: int
    fits: bool
    longest: int | None
    """The longest prompt that was run and fitted; None where not even the shortest did."""
    too_long: int | None
    """The shortest one that was run and did not; None where none was found."""
    error: str | None = None

    def __str__(self) -> str:
        said = f"found {self.findings}  fits {'yes' if self.fits else 'no'}"
        said += f"  ran {_number(self.longest)}, not {_number(self.too_long)}"
        return said if self.error is None else f"{said}  {self.error}"


def _number(count: int | None) -> str:
    return "-" if count is None else f"{count:,}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Compare all models, print a table, and fail where another map is clearly better than the plan's."""
    parser = command_parser(__name__, __doc__)
    parser.add_argument("--only", nargs="+", default=[""], metavar="NAME", help="part of a model's name")
    parser.add_argument("--gpus", type=int, nargs="+", default=[2, 4, 8])
    parser.add_argument("--trials", action="store_true")
    options = parser.parse_args(arguments)
    least = 1.0
    for name, config in models().items():
        if not any(part in name for part in options.only):
            continue
        began = time.perf_counter()
        works = works_for(config)
        with measuring(find_model({**config, "torch_dtype": "bfloat16"})) as measure:
            profiles = {number: measure(work) for number, work in works.items()}
        print(f"{name}: measured in {time.perf_counter() - began:.0f} s", flush=True)
        for count in options.gpus:
            machine = fitting(middle(profiles), count)
            if machine is None:
                print(f"  does not fit on {count} GPUs of any size", flush=True)
                continue
            rows = list(compared(config, profiles, machine, trials=options.trials))
            print(f"  {machine.spec}", flush=True)
            for row in rows:
                longest = _number(row.longest)
                trial = "" if row.trial is None else f"  {row.trial}"
                print(
                    f"    {row.who:25} load {row.load:5.2f}  idle {row.idle}  longest {longest:>9}"
                    f"  {row.seconds:6.3f} s{trial}  {row.note}",
                    flush=True,
                )
            least = min(least, *(row.load for row in rows if row.longest is not None))
    print(f"smallest largest load of a map without a block on the host: {least:.4f} of the plan's")
    return int(least < _TOLERANCE)


def models() -> dict[str, Mapping[str, Any]]:
    """The configuration of each model, by its name."""
    named = {name.partition("/")[2]: find_model(name).values for name in NAMES}
    return {**named, **TEXT_PARTS}


def works_for(config: Mapping[str, Any]) -> dict[int, Workload]:
    """What is measured of a model, by the number that is to be as large as can be."""
    if reads_sound(model_class(find_model(config))):
        return {batch: Workload(batch, 1, NEW_TOKENS, seconds=30) for batch in BATCHES}
    return {length: Workload(1, length, NEW_TOKENS) for length in LENGTHS}


def middle(profiles: Mapping[int, Profile]) -> Profile:
    """The one for which loads are compared."""
    return profiles[AT] if AT in profiles else profiles[BATCHES[1]]


def fitting(profile: Profile, count: int) -> Machine | None:
    """So many GPUs of the smallest size that is half empty and holds each block; None where none is."""
    kept = sum(block.kept for block in profile.blocks)
    half = [size for size in SIZES if size * count << 30 >= 2 * kept] or [SIZES[-1]]
    for size in half:
        machine = parse_machine(f"{count}x{size}GB")
        slots = [Slot(gpu.total_memory - RESERVE) for gpu in machine.gpus]
        if divide(Loads(profile.blocks), slots).room >= 0:
            return machine
    return None


def compared(
    config: Mapping[str, Any], profiles: Mapping[int, Profile], machine: Machine, *, trials: bool
) -> Sequence[Row]:
    """The plan first, then the others."""
    slots = [Slot(gpu.total_memory - RESERVE) for gpu in machine.gpus]
    blocks = middle(profiles).blocks
    began = time.perf_counter()
    division = divide(Loads(blocks), slots)
    took = time.perf_counter() - began
    runs = {
        name: run.gpu
        for run in division.runs
        for block in blocks[run.start : run.stop]
        for name in block.names
    }
    if trials:
        placed = place_model({**config, "torch_dtype": "bfloat16"}, machine, middle(profiles).workload)
        runs = placed.device_map
    maps: list[tuple[str, Places, float]] = [("plan", runs, took), *others(config, machine)]
    best = max(loads_of(blocks, runs).values())
    rows = []
    for who, places, seconds in maps:
        loads = loads_of(blocks, places)
        notes = oddities(blocks, places)
        most = longest(profiles, slots, places)
        rows.append(
            Row(
                who,
                max(loads.values()) / best,
                len(machine.gpus) - len(loads),
                most,
                seconds,
                "; ".join(notes),
                trial_of(config, machine, places, most, middle(profiles).workload) if trials else None,
            )
        )
    return rows


def others(config: Mapping[str, Any], machine: Machine) -> list[tuple[str, Places, float]]:
    """The maps of accelerate and transformers, made inside the virtual machine, with their time."""
    import accelerate
    from accelerate.utils import get_balanced_memory
    from transformers.integrations.accelerate import _get_device_map

    from samedevice.runtime import VirtualMachine

    found: list[tuple[str, Places, float]] = []
    with VirtualMachine(machine):
        model: Any = build_model(find_model(config, "bfloat16"))
        model.tie_weights()
        whole = list(model._no_split_modules)

        def by_accelerate(balanced: bool) -> Places:
            memory = get_balanced_memory(model, no_split_module_classes=whole) if balanced else None
            made: Places = accelerate.infer_auto_device_map(model, memory, no_split_module_classes=whole)
            return made

        ways: Mapping[str, Callable[[], Places]] = {
            "accelerate, auto": lambda: by_accelerate(balanced=False),
            "accelerate, balanced": lambda: by_accelerate(balanced=True),
            "transformers, auto": lambda: _get_device_map(model, "auto", None, None),
            "transformers, sequential": lambda: _get_device_map(model, "sequential", None, None),
        }
        for who, way in ways.items():
            began = time.perf_counter()
            places = dict(way())
            found.append((who, places, time.perf_counter() - began))
    return found


def place_of(block: Block, places: Places) -> int | str | None:
    """Where a map puts a block: by its first name; of one that is split, where its first part is."""
    name = block.names[0]
    words = {key: str(place) for key, place in places.items()}
    found = mapped(words, name) or next((words[key] for key in words if key.startswith(f"{name}.")), None)
    return int(found) if found is not None and found.isdecimal() else found


def loads_of(blocks: Sequence[Block], places: Places) -> dict[int, int]:
    """Peak of each GPU that holds something."""
    held: dict[int, list[Block]] = {}
    for block in blocks:
        place = place_of(block, places)
        if isinstance(place, int):
            held.setdefault(place, []).append(block)
    return {gpu: _peak(own, home=own[0] is blocks[0]) for gpu, own in held.items()}


def _peak(blocks: list[Block], *, home: bool) -> int:
    if home:
        return Loads(blocks).peak(0, len(blocks))
    return Loads([Block(("",), "", 0), *blocks]).peak(1, len(blocks) + 1)


def oddities(blocks: Sequence[Block], places: Places) -> list[str]:
    """What is wrong with a map by looking at it."""
    words = {key: str(place) for key, place in places.items()}
    away = sum(isinstance(place_of(block, places), str) for block in blocks)
    apart = [
        " = ".join(block.names) for block in blocks if len({mapped(words, name) for name in block.names}) > 1
    ]
    notes = [f"{away} blocks off the GPUs"] if away else []
    return notes + [f"tied apart: {names}" for names in apart]


def longest(profiles: Mapping[int, Profile], slots: Sequence[Slot], places: Places) -> int | None:
    """The longest prompt that fits by a map; None where a block is off the GPUs."""
    if any(isinstance(place_of(block, places), str) for block in middle(profiles).blocks):
        return None
    rooms = {}
    for length, profile in profiles.items():
        loads = loads_of(profile.blocks, places)
        rooms[length] = min(slots[gpu].budget - load for gpu, load in loads.items())
    lengths = sorted(rooms)
    for low, high in pairwise(lengths):
        if rooms[low] >= 0 > rooms[high]:
            return low + (high - low) * rooms[low] // (rooms[low] - rooms[high])
    if rooms[lengths[0]] < 0:
        return 0
    # Beyond the last measurement on the same line.
    low, high = lengths[-2:]
    fall = (rooms[low] - rooms[high]) / (high - low)
    return high + int(rooms[high] / fall)


def trial_of(
    config: Mapping[str, Any], machine: Machine, places: Places, calculated: int | None, work: Workload
) -> Trial:
    """What happens with a map on the virtual machine, and between which prompts it begins not to fit."""
    at = work.context if work.seconds is None else work.batch

    def ran(number: int) -> Proof:
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "config.json").write_text(json.dumps({**config, "torch_dtype": "bfloat16"}), "utf-8")
            asked = work.with_number("context" if work.seconds is None else "batch", number)
            return check_map(folder, machine, places, asked, reserve=RESERVE).proof

    first = ran(at)
    if first.error is not None or calculated is None:
        fitted = first.error is None and _fits(first, machine)
        return Trial(len(first.events), fitted, at if fitted else None, None, first.error)
    low, high = (at, None) if _fits(first, machine) else (None, at)
    tried = [round(calculated * part) for part in (1 - _NEAR, 1 + _NEAR)]
    for length in (*tried, *_HALVINGS):
        if low is not None and high is not None and high - low <= 3 * _NEAR * high:
            break
        number = length or ((low or 0) + (high or 2 * (low or at))) // 2
        if number < 1 or (low is not None and number <= low) or (high is not None and number >= high):
            continue
        if _fits(ran(number), machine):
            low = number
        else:
            high = number
    return Trial(len(first.events), _fits(first, machine), low, high)


def _fits(proof: Proof, machine: Machine) -> bool:
    """Whether every peak is within its GPU's budget, whatever was found besides."""
    budgets = {index: gpu.total_memory - RESERVE for index, gpu in enumerate(machine.gpus)}
    return replace(proof, events=()).holds(budgets)
