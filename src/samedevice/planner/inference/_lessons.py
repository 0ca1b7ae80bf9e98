"""What a trial that failed teaches the next plan: blocks that belong on one GPU, and bytes that were missing.

Must guarantee: each lesson changes the row of blocks, so planning again comes to an end; and a lesson is no
more than the trial showed, wider only where the same statement failed again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from samedevice.events import Event, Operand, Place
from samedevice.machines import Machine
from samedevice.planner._trial import Proof
from samedevice.planner.inference._blocks import Block, Loads, taught
from samedevice.planner.inference._division import Run

_GAP = 64 << 20
"""Bytes: the least that is left free besides where the allocator's gaps ran out of memory. A choice."""
_GPU = "cuda:"


@dataclass(frozen=True, slots=True)
class Lesson:
    """One thing that a trial showed."""

    trial: int
    """Its number, from 1."""
    together: tuple[str, ...] = ()
    """Modules that must be on one GPU with all that shares a block with them, in the order of execution;
    empty where bytes were missing.
    """
    statement: Place | None = None
    """The line that got tensors of several GPUs, because they were not."""
    error: str | None = None
    """How the model's own code ended, when it was divided."""
    gpu: int | None = None
    """Where bytes were missing."""
    missing: int = 0
    """So many, beyond what was calculated."""
    gaps: bool = False
    """The tensors fitted: the bytes are those that torch's allocator left between them."""
    blocks: tuple[str, ...] = ()
    """A module of each block that was there."""


def with_lessons(blocks: Sequence[Block], lessons: Sequence[Lesson]) -> tuple[Block, ...]:
    """The row of blocks as it is after these lessons."""
    more: dict[str, int] = {}
    for lesson in lessons:
        for name in lesson.blocks:
            more[name] = more.get(name, 0) + lesson.missing
    return taught(blocks, [frozenset(lesson.together) for lesson in lessons if lesson.together], more)


def lessons_of(
    proof: Proof,
    machine: Machine,
    blocks: Sequence[Block],
    runs: Sequence[Run],
    budgets: Mapping[int, int],
    earlier: Sequence[Lesson],
    trial: int,
) -> tuple[Lesson, ...]:
    """What a trial of this division showed; nothing where no other division would help.

    Args:
        proof: the trial.
        machine: on which it was.
        blocks: the row that was divided.
        runs: its division.
        budgets: bytes of each GPU that may be used.
        earlier: lessons that the row has had already.
        trial: number of the trial.
    """
    row = _Row(blocks, runs)
    found = [*_meetings(proof.events, row, earlier, trial)]
    if proof.error is not None and len(runs) > 1 and not found:
        found = [Lesson(trial, row.names(range(len(blocks))), error=proof.error)]
    if proof.error is None:
        found += _missing(proof, machine, row, budgets, trial)
    return tuple(found)


class _Row:
    """A row of blocks with their GPUs, asked by the names of modules and parameters."""

    def __init__(self, blocks: Sequence[Block], runs: Sequence[Run]) -> None:
        self.blocks = blocks
        self.runs = runs
        self.gpus = [run.gpu for run in runs for _ in range(run.start, run.stop)]
        self._position = {name: number for number, block in enumerate(blocks) for name in block.names}

    def block_of(self, name: str | None) -> int | None:
        """The block that is or contains what has this qualified name."""
        while name:
            if name in self._position:
                return self._position[name]
            name = name.rpartition(".")[0]
        return None

    def below(self, name: str) -> set[int]:
        """The blocks that are parts of a module, all of them for the model itself."""
        dot = f"{name}."
        return {
            number
            for number, block in enumerate(self.blocks)
            if any(each.startswith(dot) for each in block.names)
        }

    def names(self, positions: Sequence[int] | set[int]) -> tuple[str, ...]:
        """The first module of each of these blocks."""
        return tuple(self.blocks[number].names[0] for number in sorted(positions))

    def run_of(self, gpu: int) -> Run | None:
        """The blocks of a GPU."""
        return next((run for run in self.runs if run.gpu == gpu), None)


def _meetings(
    events: Sequence[tuple[Event, int]], row: _Row, earlier: Sequence[Lesson], trial: int
) -> Iterator[Lesson]:
    """For each statement that got tensors of several GPUs, what is to be on one."""
    seen: set[tuple[str, ...]] = set()
    for event, _ in events:
        line = (event.at.file, event.at.line)
        before = [lesson for lesson in earlier if _line(lesson) == line]
        wider = [each for each in _candidates(event, row) if len(each) > 1]
        if not wider:
            continue
        together = row.names(wider[min(len(before), len(wider) - 1)])
        if together not in seen:
            seen.add(together)
            yield Lesson(trial, together, statement=event.at)


def _line(lesson: Lesson) -> tuple[str, int] | None:
    return None if lesson.statement is None else (lesson.statement.file, lesson.statement.line)


def _candidates(event: Event, row: _Row) -> Iterator[set[int]]:
    """Blocks that may have to be on one GPU, the fewest first: the last is the whole row.

    First those which put the operands where they are; then those on both sides of the borders between their
    GPUs; then the parts of the modules that were running, innermost first.
    """
    gpus = {int(each.device.removeprefix(_GPU)) for each in event.operands if _numbered(each.device)}
    runs = [run for run in map(row.run_of, gpus) if run is not None]
    if len(runs) < 2:
        return
    modules = [each.name for each in event.running[:-1]]  # the outermost one is the model itself
    here = next((position for position in map(row.block_of, modules) if position is not None), None)
    yield {
        position
        for operand in event.operands
        if _numbered(operand.device) and (position := _source(operand, here, row)) is not None
    }
    first, last = min(runs, key=lambda run: run.start), max(runs, key=lambda run: run.start)
    yield set(range(first.stop - 1, last.start + 1))
    for name in modules:
        below = row.below(name)
        if len({row.gpus[position] for position in below}) > 1:
            yield below
    yield set(range(len(row.blocks)))


def _source(operand: Operand, here: int | None, row: _Row) -> int | None:
    """The block that put an operand on its GPU; None where that cannot be told."""
    gpu = int(operand.device.removeprefix(_GPU))
    if here is not None and row.gpus[here] == gpu:
        return here
    named = [operand.parameter, *(step.name for step in operand.lineage)]
    blocks = (row.block_of(name) for name in named)
    return next((block for block in blocks if block is not None and row.gpus[block] == gpu), None)


def _numbered(device: str) -> bool:
    return device.startswith(_GPU) and device.removeprefix(_GPU).isdecimal()


def _missing(
    proof: Proof, machine: Machine, row: _Row, budgets: Mapping[int, int], trial: int
) -> Iterator[Lesson]:
    """The bytes that GPUs lacked: of tensors, or of gaps between them."""
    loads = Loads(row.blocks)
    lacking = [peak for peak in proof.peaks if peak.allocated > budgets[peak.gpu]]
    for peak in lacking:
        run = row.run_of(peak.gpu)
        if run is not None and (missing := peak.allocated - loads.peak(run.start, run.stop)) > 0:
            names = row.names(range(run.start, run.stop))
            yield Lesson(trial, gpu=peak.gpu, missing=missing, blocks=names)
    if lacking or not proof.out_of_memory:
        return
    for peak in proof.peaks:
        run, total = row.run_of(peak.gpu), machine.gpus[peak.gpu].total_memory
        if run is not None and peak.reserved > total - _GAP:
            missing = max(peak.reserved - total, _GAP)
            names = row.names(range(run.start, run.stop))
            yield Lesson(trial, gpu=peak.gpu, missing=missing, gaps=True, blocks=names)
