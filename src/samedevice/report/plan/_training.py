"""How a way of training that was chosen for a machine is shown, and as data."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.table import Table

from samedevice.machines import nccl_rings
from samedevice.messages import SOURCE, Bytes, Language, Phrase, Several, Value, signed_percent
from samedevice.planner import RESERVE
from samedevice.preflight import NothingFits, TrainingPlan, Way
from samedevice.preflight.needs import PARTS
from samedevice.report._render import error_text, render
from samedevice.report.gpu_bars import labelled
from samedevice.report.plan._document import SCHEMA
from samedevice.report.plan._facts import outside_bytes


def training_shown(
    plan: TrainingPlan, files: Sequence[Path], folder: Path | None, language: Language
) -> Table:
    """The plan for a terminal."""
    return labelled(training_rows(plan, files, folder), language)


def training_rows(
    plan: TrainingPlan, files: Sequence[Path], folder: Path | None
) -> Iterator[tuple[Phrase, Value]]:
    """What is said of the plan, with a label each."""
    shape, wanted = plan.shape, plan.wanted
    yield (
        Phrase("place.model"),
        Phrase("train.model", name=shape.name, count=f"{shape.count / 1e9:.2f}"),
    )
    yield (
        Phrase("place.work"),
        Phrase("train.work", batch=wanted.batch, context=wanted.context, precision=plan.training.precision),
    )
    yield Phrase("place.machine"), Phrase("train.machine", machine=str(plan.machine))
    what, needs, why = plan.why
    yield Phrase("train.plan"), what
    yield Phrase("train.needs"), needs
    worst = plan.estimate.worst
    parts = [
        Phrase("train.part", part=Phrase(key), amount=Bytes(getattr(worst, part)))
        for part, key in PARTS.items()
        if getattr(worst, part)
    ]
    yield Phrase("train.parts"), Several(tuple(parts), "comma")
    yield Phrase("train.why"), why
    yield Phrase("train.reserve-label"), _left_alone(plan)
    for number, missing in enumerate(plan.missed, 1):
        yield Phrase("place.learned"), Phrase("train.learned", trial=number, missing=Bytes(missing))
    yield Phrase("place.proof"), _outcome(plan)
    if folder is not None:
        yield Phrase("train.written"), ", ".join(map(str, files))
        yield Phrase("train.start"), f"sh {folder / 'launch.sh'} TEXT..."


@dataclass(frozen=True, slots=True)
class _Overhead:
    """Bytes that a training process takes on a GPU beside its tensors."""

    context: int
    blas: int
    """The workspaces of cuBLAS; autograd's thread has a handle of its own."""
    rings: tuple[int, int] | None
    """Of NCCL, the least and the most; None for a single process."""

    @classmethod
    def of(cls, plan: TrainingPlan) -> _Overhead:
        context, blas = outside_bytes(plan.machine)
        return cls(context, 2 * blas, nccl_rings() if plan.estimate.ranks > 1 else None)

    def as_json(self) -> dict[str, Any]:
        return {"context": self.context, "blas": self.blas, "nccl_rings": list(self.rings or (0, 0))}


def _left_alone(plan: TrainingPlan) -> Phrase:
    """What of each GPU the plan does not use, and for what."""
    beside = _Overhead.of(plan)
    values = {"reserve": Bytes(RESERVE), "context": Bytes(beside.context), "blas": Bytes(beside.blas)}
    if beside.rings is None:
        return Phrase("train.reserve-alone", **values)
    least, most = beside.rings
    return Phrase("train.reserve", **values, least=Bytes(least), most=Bytes(most))


def _outcome(plan: TrainingPlan) -> Phrase:
    if plan.measured is None:
        return Phrase("train.unmeasured", reason=plan.unmeasured or "?")
    peak = plan.measured.peak
    values: dict[str, Value] = {
        "peak": Bytes(peak),
        "limit": Bytes(plan.limit),
        "formula": signed_percent(plan.estimate.peak / peak - 1),
        "seconds": f"{plan.seconds:.0f}",
    }
    return Phrase("train.proved" if plan.proved else "train.over", **values)


def no_training_document(error: NothingFits) -> dict[str, Any]:
    """That nothing fits, as a JSON object."""
    return {"schema": SCHEMA, "feasible": False, "proved": False, "why": [error_text(error, SOURCE)]}


def training_document(plan: TrainingPlan, largest: int, files: Sequence[Path]) -> dict[str, Any]:
    """The plan as a JSON object."""
    measured = plan.measured
    return {
        "schema": SCHEMA,
        "model": {"name": plan.shape.name, "parameters": plan.shape.count},
        "machine": plan.machine.describe(),
        "feasible": True,
        "proved": plan.proved,
        "limit": plan.limit,
        "overhead": _Overhead.of(plan).as_json(),
        "training": Way(plan.estimate, largest).as_json(),
        "why": [render(each) for each in plan.why],
        "missed": list(plan.missed),
        "proof": None
        if measured is None
        else {
            "built": measured.built,
            "forward": measured.forward,
            "backward": measured.backward,
            "step": measured.step,
            "reserved": measured.reserved,
        },
        "unmeasured": plan.unmeasured,
        "seconds": round(plan.seconds, 2),
        "files": [str(file) for file in files],
    }
