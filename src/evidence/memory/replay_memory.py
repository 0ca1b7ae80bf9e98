"""A virtual GPU needs the memory that a real one needed in a recording: peaks, operators, allocator.

Time: some four minutes; `--only` takes some pieces.
Needs: transformers, peft.

    python -m evidence replay-memory [RECORDING.json.gz ...] [--parts PART ...] [--only TEXT] [--json FILE]

Without a recording it replays those in `measurements/memory/`. `cases`: allocated and reserved bytes of each
case, the largest of its moments, and the formula beside them for training; `events`: the real program's
requests given to our allocator, which must ask the driver for the same segments in the same order;
`operators`: what each keeps and takes in passing; `sequences`: drawn allocations, whose statistics must be
equal after each step; `layouts`: where the driver laid the segments that a program took before it gave one
back, in a recording of their addresses. Exit status 1 where the medians of the cases are beyond 2 % of
allocated or 5 % of reserved bytes.
"""

from __future__ import annotations

import gzip
import json
import statistics
import tempfile
from collections.abc import Iterator, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

from evidence.commands import command_parser
from evidence.places import ROOT

RECORDINGS = ROOT / "measurements" / "memory"
PARTS = ("cases", "events", "operators", "sequences", "layouts")
ALLOCATED, RESERVED = 0.02, 0.05
"""Medians that the cases must keep."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Replay, print, judge."""
    parser = command_parser(__name__, __doc__)
    parser.add_argument("recordings", nargs="*", type=Path)
    parser.add_argument("--parts", nargs="*", choices=PARTS, default=PARTS, metavar="PART", help="only these")
    parser.add_argument("--only", default="", help="pieces whose name holds this text")
    parser.add_argument("--json", type=Path, help="write what was compared")
    options = parser.parse_args(arguments)
    paths = options.recordings or sorted(RECORDINGS.glob("*.json.gz"))
    if not paths:
        print(f"no recording in {RECORDINGS}: python -m evidence record-memory makes one on a GPU")
        return 1
    good = True
    for path in paths:
        recorded = _loaded(path)
        print(f"{path}: {', '.join(f'{key} {value}' for key, value in recorded['machine'].items())}")
        replayed = [part for part in options.parts if part in recorded and part != "layouts"]
        machine = _machine_like(recorded["machine"]["gpu"])
        ours = _ours(replayed, options.only, machine)
        found: dict[str, Any] = {}
        if "cases" in options.parts and "cases" in recorded:
            found["cases"] = _cases(recorded.get("cases", {}), ours["cases"], machine)
            good = _summary(found["cases"]) and good
        if "events" in options.parts and "cases" in recorded:
            found["events"] = _events(recorded.get("cases", {}), options.only)
        if "operators" in options.parts and "operators" in recorded:
            found["operators"] = _operators(recorded.get("operators", {}), ours["operators"])
        if "sequences" in options.parts and "sequences" in recorded:
            found["sequences"] = _sequences(recorded.get("sequences", {}), ours["sequences"])
        if "layouts" in options.parts and "layouts" in recorded:
            found["layouts"] = layouts(recorded["layouts"], options.only)
        if options.json:
            options.json.write_text(json.dumps(found, indent=1), encoding="utf-8")
    return 0 if good else 1


def _loaded(path: Path) -> dict[str, Any]:
    with gzip.open(path, "rt", encoding="utf-8") as stream:
        found: dict[str, Any] = json.load(stream)
    return found


def _machine_like(gpu: str) -> str:
    """What stands in for a recorded GPU."""
    from evidence.memory.record_memory import MACHINES

    return next(machine for word, machine in MACHINES.items() if word in gpu)


def _ours(parts: Sequence[str], only: str, machine: str) -> dict[str, Any]:
    """The same pieces, recorded on a virtual GPU now."""
    from evidence.memory import record_memory

    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "virtual.json.gz"
        if parts:
            record_memory.main(
                [str(file), "--self-check", "--machine", machine, "--parts", *parts, "--only", only]
            )
        return {**{key: {} for key in PARTS}, **(_loaded(file) if parts else {})}


def _cases(real: dict[str, Any], ours: dict[str, Any], machine: str) -> list[dict[str, Any]]:
    rows = []
    print(f"{'case':62} {'allocated':>10} {'ours':>8} {'reserved':>10} {'ours':>8} {'formula':>8}  at")
    for name, measured in real.items():
        said = ours.get(name)
        if said is None:
            continue
        if "error" in measured or "error" in said:
            print(f"{name:62} {_error(measured)[:60]} | ours: {_error(said)[:60]}")
            continue
        row = _row(name, measured, said, machine)
        rows.append(row)
        retries = f", {row['retries']} retries" if row["retries"] else ""
        print(
            f"{name:62} {row['allocated'] / 2**20:8.1f} M {row['allocated_error']:+8.2%} "
            f"{row['reserved'] / 2**20:8.1f} M {row['reserved_error']:+8.2%} "
            f"{'' if row['formula_error'] is None else format(row['formula_error'], '+.2%'):>8}  "
            f"{row['moment']}{retries}"
        )
    return rows


def _row(name: str, measured: dict[str, Any], said: dict[str, Any], spec: str) -> dict[str, Any]:
    from evidence.memory.gpu_cases import PLANNED
    from samedevice.machines import blas_workspace, parse_machine
    from samedevice.planner import TrainingShape, training_memory

    moments = {moment: amounts for moment, amounts in measured["moments"].items() if moment != "load"}
    moment = max(moments, key=lambda each: moments[each][0])
    allocated, reserved = moments[moment][0], max(amounts[1] for amounts in moments.values())
    theirs = {moment: amounts for moment, amounts in said["moments"].items() if moment != "load"}
    formula = None
    if name in PLANNED:
        config, chosen = PLANNED[name]
        shape = TrainingShape.from_config(config, name)
        machine = parse_machine(spec)
        beside = 2 * blas_workspace(
            machine.gpus[0]
        )  # of this thread and autograd's; a plan has it in reserve
        formula = (training_memory(shape, machine, chosen).peak + beside) / allocated - 1
    return {
        "case": name,
        "moment": moment,
        "allocated": allocated,
        "reserved": reserved,
        "allocated_error": max(amounts[0] for amounts in theirs.values()) / allocated - 1,
        "reserved_error": max(amounts[1] for amounts in theirs.values()) / reserved - 1,
        "formula_error": formula,
        "retries": measured["retries"],
        "moments": {
            each: [mine / other - 1 for mine, other in zip(said["moments"][each], amounts, strict=True)]
            for each, amounts in measured["moments"].items()
            if each in said["moments"] and all(amounts)
        },
    }


def _summary(rows: list[dict[str, Any]]) -> bool:
    good = True
    for key, bound in (("allocated_error", ALLOCATED), ("reserved_error", RESERVED), ("formula_error", None)):
        errors = [abs(row[key]) for row in rows if row[key] is not None]
        if not errors:
            continue
        median = statistics.median(errors)
        print(
            f"{key.replace('_', ' ')}: median {median:.2%}, worst {max(errors):.2%}, "
            f"{sum(error <= 0.02 for error in errors)} of {len(errors)} within 2 %, "
            f"{sum(error <= 0.05 for error in errors)} within 5 %"
        )
        good = good and (bound is None or median <= bound)
    return good


def _events(real: dict[str, Any], only: str) -> list[dict[str, Any]]:
    """Our allocator under the requests of the real runs."""
    rows: list[dict[str, Any]] = []
    for name, measured in real.items():
        if "events" not in measured or only not in name:
            continue
        wanted = [word for word in measured["events"].split() if word[0] in "SR"]
        got = list(answers(measured["events"].split()))
        equal = next((n for n, (a, b) in enumerate(zip(wanted, got, strict=False)) if a != b), None)
        same = wanted == got
        rows.append({"case": name, "segments": len(wanted), "same": same})
        if not same:
            at = min(len(wanted), len(got)) if equal is None else equal
            print(f"  {name}: {len(wanted)} and {len(got)} segments, other from {at}:", end=" ")
            print(f"{wanted[at : at + 3]} and {got[at : at + 3]}")
    if rows:
        print(
            f"events: {sum(row['same'] for row in rows)} of {len(rows)} runs take and give back the same "
            f"segments ({sum(row['segments'] for row in rows)} in all)"
        )
    return rows


def answers(words: Sequence[str]) -> Iterator[str]:
    """What our allocator asks of the driver when these blocks are taken and given back."""
    from samedevice.runtime.state.allocator_settings import AllocatorSettings
    from samedevice.runtime.state.caching_allocator import CachingAllocator

    allocator = CachingAllocator(80 << 30, 0, AllocatorSettings())
    allocator.history.record("all", None, 1_000_000, [], clear=True)
    blocks: list[int | None] = []
    for word in words:
        number = int(word[1:])
        if word[0] == "a":
            blocks.append(allocator.take(number))
        elif word[0] == "f":
            block = blocks[-number]
            assert block is not None
            allocator.drop(block)
            blocks[-number] = None
        # what the real one asked of the driver is what ours is compared with
    for entry in allocator.history.entries:
        if entry.action in ("segment_alloc", "segment_map"):
            yield f"S{entry.size}"
        elif entry.action in ("segment_free", "segment_unmap"):
            yield f"R{entry.size}"


def _operators(real: dict[str, Any], ours: dict[str, Any]) -> list[dict[str, Any]]:
    rows = []
    both = {
        f"{name}{', ' if sizes else ''}{sizes}": (measured, ours.get(sizes, {}).get(name))
        for sizes, found in real.items()
        for name, measured in found.items()
    }
    for name, (measured, said) in both.items():
        if said is None or "error" in measured or "error" in said:
            if said is not None:
                print(f"  {name}: {_error(measured)} | ours: {_error(said)}")
            continue
        rows.append({"operator": name, "real": measured, "ours": said})
    for key in ("results", "passing", "first"):
        same = sum(row["real"][key] == row["ours"][key] for row in rows)
        print(f"operators, {key}: {same} of {len(rows)} equal to the byte")
    for row in sorted(rows, key=lambda row: -abs(row["real"]["passing"] - row["ours"]["passing"])):
        a, b = row["real"], row["ours"]
        if (a["results"], a["passing"]) != (b["results"], b["passing"]):
            print(
                f"  {row['operator']:44} keeps {a['results']:>12,} {b['results'] - a['results']:>+12,}   "
                f"in passing {a['passing']:>12,} {b['passing'] - a['passing']:>+12,}"
            )
    return rows


def _sequences(real: dict[str, Any], ours: dict[str, Any]) -> list[dict[str, Any]]:
    from evidence.memory.allocator_sequences import KEYS

    rows = []
    for name, steps in real.items():
        said = ours.get(name)
        if said is None:
            continue
        if isinstance(steps, dict) or isinstance(said, dict):
            print(f"  {name}: {_error(steps)} | ours: {_error(said)}")
            continue
        first = next((n for n, (a, b) in enumerate(zip(steps, said, strict=True)) if a != b), None)
        rows.append({"sequence": name, "steps": len(steps), "equal": len(steps) if first is None else first})
        if first is not None:
            other = [key for key, a, b in zip(KEYS, steps[first], said[first], strict=True) if a != b]
            print(f"  {name}: other from step {first}: {other}: {steps[first]} and {said[first]}")
    if rows:
        equal = sum(row["equal"] == row["steps"] for row in rows)
        print(f"sequences: {equal} of {len(rows)} equal at each step")
    return rows


def layouts(real: dict[str, str], only: str = "") -> list[dict[str, Any]]:
    """Where segments lie: each beside the one before it, and those of one size in which order."""
    from samedevice.runtime.state.driver_addresses import DriverAddresses

    rows: list[dict[str, Any]] = []
    for name, text in real.items():
        if only not in name:
            continue
        pairs = [word.split("@") for word in text.split()]
        sizes, seen = [int(size) for size, _ in pairs], [int(at) for _, at in pairs]
        space = DriverAddresses(1 << 47)
        ours = [space.take(size) >> 20 for size in sizes]
        alike = [
            (seen[one] < seen[other]) == (ours[one] < ours[other])
            for one, other in combinations(range(len(sizes)), 2)
            if sizes[one] == sizes[other]
        ]
        steps = [seen[at] - seen[at - 1] == ours[at] - ours[at - 1] for at in range(1, len(sizes))]
        rows.append({"name": name, "steps": [sum(steps), len(steps)], "order": [sum(alike), len(alike)]})
    beside, lower = (
        " of ".join(f"{sum(row[key][at] for row in rows):,}" for at in (0, 1)) for key in ("steps", "order")
    )
    print(
        f"layouts of {len(rows)} programs: {beside} segments lie beside the one before as here; of two of "
        f"one size the same is lower in {lower}"
    )
    return rows


def _error(found: Any) -> str:
    return str(found["error"]) if isinstance(found, dict) and "error" in found else "runs"
