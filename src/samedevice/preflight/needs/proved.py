"""A way of training that fits a machine by formula, and whose step was taken on a virtual one.

Must guarantee: a plan that is called proved took real steps of the whole model, and its peak is within what
each GPU has less the reserve. Where a step needs more than the formula says, the difference is left free and
the choice is made again.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from samedevice.errors import UsageError
from samedevice.machines import Machine
from samedevice.messages import Phrase
from samedevice.planner import (
    RESERVE,
    MeasuredStep,
    MemoryEstimate,
    TooLarge,
    Training,
    TrainingShape,
    capacity,
    configuration,
    step_within,
    training_memory,
)
from samedevice.preflight.needs.files import Wanted, chosen_training

_TRIALS = 4
"""Choices of one plan."""
_ACCUMULATED = 2
"""Micro-batches of a step that is taken: what is accumulated is the same from the second one on."""


@dataclass(frozen=True, slots=True)
class TrainingPlan:
    """How a model is to be trained on a machine."""

    shape: TrainingShape
    machine: Machine
    wanted: Wanted
    estimate: MemoryEstimate
    why: tuple[Phrase, ...]
    limit: int
    """Bytes of each GPU that may be used."""
    measured: MeasuredStep | None
    """The last step that was taken; None where none can be."""
    unmeasured: str | None
    """Why none can be, or that it ran out of memory."""
    seconds: float
    missed: tuple[int, ...] = ()
    """Bytes by which each trial before the last was above the limit."""

    @property
    def training(self) -> Training:
        """The way."""
        return self.estimate.training

    @property
    def proved(self) -> bool:
        """Whether a step was taken, within the limit."""
        return self.measured is not None and self.measured.peak <= self.limit


def plan_training(wanted: Wanted, machine: Machine, tell: Callable[[Phrase], object]) -> TrainingPlan:
    """Choose a way of training, and take a step by it.

    Raises UsageError for what is no model, and `NothingFits` where no way fits.
    """
    shape, values = TrainingShape.from_folder(wanted.model), configuration(wanted.model)
    limit, began = capacity(machine, RESERVE), time.perf_counter()
    missed: tuple[int, ...] = ()
    while True:
        training, why = chosen_training(wanted, machine, RESERVE + sum(missed))
        estimate = training_memory(shape, machine, training)
        plan = TrainingPlan(shape, machine, wanted, estimate, why, limit, None, None, 0.0, missed)
        tell(Phrase("train.step", number=len(missed) + 1))
        taken = replace(training, accumulation=min(training.accumulation, _ACCUMULATED))
        try:
            plan = replace(plan, measured=step_within(values, machine, taken))
            over = plan.measured.peak - limit if plan.measured is not None else 0
        except TooLarge as error:
            plan, over = replace(plan, unmeasured=str(error)), limit // 16
        except UsageError as error:  # kernels of other libraries; DeepSpeed
            plan, over = replace(plan, unmeasured=str(error)), 0
        plan = replace(plan, seconds=time.perf_counter() - began)
        if over <= 0 or len(missed) + 1 == _TRIALS:
            return plan
        missed = (*missed, over)
