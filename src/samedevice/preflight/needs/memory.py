"""The memory of a launch: what each GPU needs for a training step, part by part.

Which micro-batch fits, and what to try when none does.

Must guarantee: every number is an estimate of `samedevice.planner` for the way of training that is named with
it. Precision, optimizer, what is trained and the context are not read from the script, so nothing here
refuses a launch; what cannot be known is a note.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from samedevice.errors import UsageError
from samedevice.findings import Renderer
from samedevice.machines import Machine
from samedevice.messages import Bytes, Phrase, Value
from samedevice.planner import (
    Full,
    Lora,
    MemoryEstimate,
    Mode,
    Training,
    TrainingShape,
    Tuning,
    capacity,
    choose_launch,
    configuration,
    describe,
    estimated_type,
    largest_micro_batch,
    training_memory,
)
from samedevice.preflight.needs.files import MODES, SHARDINGS, Wanted, wanted_training
from samedevice.preflight.verdict import Judgement

METHODS: dict[str, Tuning] = {"full": Full(), "lora": Lora(), "qlora": Lora(quantized=True)}
"""What is trained: every weight; adapters; adapters beside 4-bit weights."""
PARTS = {
    "weights": "part.weights",
    "gradients": "part.gradients",
    "optimizer": "part.optimizer",
    "activations": "part.activations",
    "gathered": "part.gathered",
    "buckets": "part.buckets",
    "working": "part.working",
}
"""What adds up to the peak of a `Moment`, and what it is called."""

_ESTIMATED: dict[str, Mode] = {
    "single-gpu": "single",
    "independent": "single",
    "ddp": "ddp",
    "fsdp2": "fsdp",
    "zero-1": "zero1",
    "zero-2": "zero2",
    "zero-3": "zero3",
}
"""The planner's word for a mode that preflight tells; the others have no formula."""
_BROKEN = (OSError, ImportError, TypeError, ValueError, LookupError, ArithmeticError, AttributeError)
"""What a model folder raises while it is read, when it holds something else than it should (`UsageError` is a
`ValueError`).
"""


def wanted(model: Path, batch: int, context: int, mode: str | None, sharding: str, method: str) -> Wanted:
    """What the command line asks for; raises UsageError for a sharding, a method or a number that is none."""
    known = next((each for each in SHARDINGS if each == sharding), None)
    if known is None:
        raise UsageError(Phrase("preflight.mode", given=sharding, known=", ".join(SHARDINGS)))
    tuning = METHODS.get(method)
    if tuning is None:
        raise UsageError(Phrase("preflight.method", given=method, known=", ".join(METHODS)))
    if min(batch, context) < 1:
        raise UsageError(Phrase("preflight.samples"))
    return Wanted(model, batch, context, mode, known, tuning)


@dataclass(frozen=True, slots=True)
class Way:
    """One way of training, estimated."""

    estimate: MemoryEstimate
    largest: int
    """Most samples in one forward that fit; 0 when not even one does."""

    def as_json(self) -> dict[str, Any]:
        """Settings, bytes of one GPU by part at the worst moment, and whether it fits.

        `host` is for all ranks.
        """
        training, worst = self.estimate.training, self.estimate.worst
        return {
            "mode": training.mode,
            "ranks": self.estimate.ranks,
            "method": _method(training.tuning),
            "precision": training.precision,
            "optimizer": training.optimizer,
            "context": training.context,
            "checkpointing": training.checkpointing,
            "offload": training.offload,
            "micro_batch": training.micro_batch,
            "accumulation": training.accumulation,
            "moment": worst.name,
            "parts": {part: getattr(worst, part) for part in PARTS},
            "peak": self.estimate.peak,
            "host": self.estimate.host * self.estimate.ranks,
            "fits": training.micro_batch <= self.largest,
            "largest_micro_batch": self.largest,
        }


@dataclass(frozen=True, slots=True)
class LaunchMemory:
    """What a launch needs of each GPU."""

    notes: tuple[Phrase, ...] = ()
    """What could not be told, and that the launch does not fit."""
    shape: TrainingShape | None = None
    ways: tuple[Way, ...] = ()
    """The launch as it is, without and with activation checkpointing, at micro-batch 1; empty where its mode
    has no formula.
    """
    plan: Way | None = None
    """The first of the planner's ways that fits, where the launch as it is does not, or has no formula."""
    why: tuple[Phrase, ...] = ()
    """The plan in words."""
    total: int = 0
    """Bytes of the smallest GPU that is used."""
    limit: int = 0
    """Bytes of it that are planned with."""

    @property
    def fits(self) -> bool:
        """False where the launch as it is was estimated and does not fit.

        It fits neither without nor with activation checkpointing.
        """
        return not self.ways or any(way.largest for way in self.ways)

    def as_json(self, renderer: Renderer) -> dict[str, Any]:
        """The value of `memory` in the document of `preflight --json`."""
        return {
            "model": None
            if self.shape is None
            else {"name": self.shape.name, "parameters": self.shape.count},
            "total": self.total or None,
            "limit": self.limit or None,
            "ways": [way.as_json() for way in self.ways],
            "plan": None if self.plan is None else self.plan.as_json(),
            "notes": [renderer.text(note) for note in self.notes],
        }

    @property
    def headline(self) -> Phrase | None:
        """What the numbers hold for; None where there are none."""
        columns = self._columns()
        if self.shape is None or not columns:
            return None
        training = columns[0].estimate.training
        way = describe(replace(training, checkpointing=False, offload="none"))
        return Phrase(
            "needs.headline",
            model=self.shape.name,
            count=f"{self.shape.count / 1e9:.2f}",
            precision=training.precision,
            optimizer=training.optimizer,
            way=way if isinstance(training.tuning, Lora) else Phrase("needs.full", way=way),
        )

    @property
    def table(self) -> list[list[Value]]:
        """Rows: heads, micro-batch, every part, peak, what a GPU has, the largest micro-batch.

        The parts add up to the peak.
        """
        columns = self._columns()
        if not columns:
            return []
        heads = [
            Phrase("needs.checkpointing" if way.estimate.training.checkpointing else "needs.plain")
            for way in self.ways
        ]
        plan = [Phrase("needs.plan")] if self.plan is not None else []
        rows: list[list[Value]] = [
            ["", *heads, *plan],
            [Phrase("needs.micro-batch"), *(way.estimate.training.micro_batch for way in columns)],
        ]
        for part, key in PARTS.items():
            rows.append([Phrase(key), *(_gib(getattr(way.estimate.worst, part)) for way in columns)])
        rows.append([Phrase("needs.peak"), *(_gib(way.estimate.peak) for way in columns)])
        rows.append([Phrase("needs.total"), *(_gib(self.total) for _ in columns)])
        rows.append([Phrase("needs.largest"), *(way.largest for way in columns)])
        return rows

    def _columns(self) -> tuple[Way, ...]:
        return self.ways if self.plan is None else (*self.ways, self.plan)


def launch_memory(judgement: Judgement, machine: Machine, wanted: Wanted | None) -> LaunchMemory:
    """What the launch that was judged needs on `machine`; `wanted` is None where no model is known.

    A mode in `wanted` stands before the one that was judged. Nothing is raised for a model that cannot be
    read or estimated: a note says so. Raises `UsageError` for a mode in `wanted` that is none of `MODES`.
    """
    mode = _mode(judgement, wanted)
    if wanted is None:
        return LaunchMemory((Phrase("needs.no-model"),))
    try:
        config = configuration(wanted.model)
        kind, estimated = config.get("model_type"), estimated_type(config)
        if estimated is None:  # told before the model is built
            return LaunchMemory((Phrase("needs.no-formula", path=str(wanted.model), kind=str(kind)),))
        memory = _estimated(TrainingShape.from_folder(wanted.model), judgement, mode, machine, wanted)
    except _BROKEN as error:
        return LaunchMemory((Phrase("needs.unreadable", path=str(wanted.model), reason=_reason(error)),))
    if kind != estimated:
        text_only = Phrase("needs.text-only", kind=str(kind), text=estimated)
        return replace(memory, notes=(*memory.notes, text_only))
    return memory


def _estimated(
    shape: TrainingShape,
    judgement: Judgement,
    mode: Mode | None,
    machine: Machine,
    wanted: Wanted,
) -> LaunchMemory:
    launch = judgement.launch
    seen = tuple(machine.gpus[index] for index in launch.visible if index < len(machine.gpus))
    machine = replace(machine, gpus=seen) if seen else machine
    total, limit = min(gpu.total_memory for gpu in machine.gpus), capacity(machine)
    basis = wanted_training(wanted, shape)
    ways: tuple[Way, ...] = ()
    notes = []
    if mode is None:
        notes.append(Phrase("needs.no-mode", mode=judgement.mode.title))
    elif wanted.mode is None and launch.group > launch.processes and mode not in ("single", "ddp"):
        notes.append(Phrase("needs.nodes"))
    else:
        ranks = (
            len(machine.gpus) if wanted.mode is not None else min(judgement.mode.processes, len(machine.gpus))
        )
        share = -(-wanted.batch // ranks)
        asked = replace(basis, mode=mode, chosen_ranks=ranks, accumulation=2 if share > 1 else 1)
        ways = tuple(_way(shape, machine, replace(asked, checkpointing=again)) for again in (False, True))
        plain, again = (_gib(way.estimate.peak) for way in ways)
        if not any(way.largest for way in ways):
            way = describe(asked)
            notes.append(Phrase("needs.no-fit", way=way, peak=plain, again=again, limit=_gib(limit)))
        elif not ways[0].largest:
            notes.append(Phrase("needs.only-checkpointing", peak=plain, limit=_gib(limit)))
    if any(way.largest for way in ways):
        return LaunchMemory(tuple(notes), shape, ways, total=total, limit=limit)
    sharding = "deepspeed" if mode is not None and mode.startswith("zero") else wanted.sharding
    plan = choose_launch(shape, machine, basis, global_batch=wanted.batch, sharding=sharding)
    chosen = Way(plan.estimate, largest_micro_batch(shape, machine, plan.training))
    return LaunchMemory(tuple(notes), shape, ways, chosen, plan.explain(), total, limit)


def _gib(count: int) -> Bytes:
    return Bytes(count, "GiB")


def _way(shape: TrainingShape, machine: Machine, training: Training) -> Way:
    return Way(training_memory(shape, machine, training), largest_micro_batch(shape, machine, training))


def _mode(judgement: Judgement, wanted: Wanted | None) -> Mode | None:
    if wanted is None or wanted.mode is None:
        return _ESTIMATED.get(judgement.mode.name)
    mode = next((each for each in MODES if each == wanted.mode), None)
    if mode is None:
        raise UsageError(Phrase("preflight.mode", given=wanted.mode, known=", ".join(MODES)))
    return mode


def _method(tuning: Tuning) -> str:
    if isinstance(tuning, Full):
        return "full"
    return "qlora" if tuning.quantized else "lora"


def _reason(error: Exception) -> str:
    return (
        str(error).partition("\n")[0]
        if isinstance(error, UsageError)
        else f"{type(error).__name__}: {error}".partition("\n")[0]
    )
