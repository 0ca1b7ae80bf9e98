"""Which way of training fits a machine: the largest micro-batch, the next thing to try, and a whole launch.

Must guarantee: a plan that is called fitting was estimated, with its micro-batch, to stay below the smallest
GPU less the reserve, and below the host's memory where the machine says how much that is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from samedevice.messages import Bytes, Phrase, Several, Value
from samedevice.planner._estimate import RESERVE, MemoryEstimate, Moment, capacity, training_memory
from samedevice.planner._settings import ATTENTION, Full, Lora, Mode, Offload, Training
from samedevice.planner._shape import TrainingShape

if TYPE_CHECKING:
    from samedevice.machines import Machine

Sharding = Literal["fsdp", "deepspeed"]
"""Who spreads a model that does not fit as replicas."""

LARGEST = 1 << 12
"""Samples: no micro-batch above is looked at."""
SHORTEST = 512
"""Tokens: no context below is proposed."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """One way that was estimated."""

    training: Training
    peak: int
    """Bytes on each GPU."""
    host: int
    """Bytes on the host, for all ranks."""
    fits: bool


@dataclass(frozen=True, slots=True)
class LaunchPlan:
    """How to train: the first way that fits, with its largest micro-batch.

    The order of ways is that of `choose_launch`.

    `fits` is False when nothing did; then `training` is the way that came nearest.
    """

    shape: TrainingShape
    training: Training
    estimate: MemoryEstimate
    limit: int
    """Bytes of each GPU that the plan may use."""
    fits: bool
    global_batch: int
    """Samples of one optimizer step over all ranks; what was asked for, or the next multiple of the ranks."""
    attempts: tuple[Attempt, ...]
    """Everything that was estimated on the way, in order; the last one is the plan."""

    def explain(self) -> tuple[Phrase, Phrase, Phrase]:
        """Why this way, in three sentences: what it is, what it needs, what did not fit before it."""
        training, estimate = self.training, self.estimate
        what = Phrase(
            "plan.what",
            way=describe(training),
            micro=training.micro_batch,
            accumulation=training.accumulation,
            ranks=estimate.ranks,
            batch=self.global_batch,
        )
        needs = Phrase(
            "plan.needs" if self.fits else "plan.too-much",
            peak=Bytes(estimate.peak, "GiB"),
            limit=Bytes(self.limit, "GiB"),
            moment=describe_moment(estimate.worst),
            host=describe_host(estimate),
        )
        before = [attempt for attempt in self.attempts[:-1] if not attempt.fits]
        if not before:
            return what, needs, Phrase("plan.first")
        last = before[-1]
        why = Phrase(
            "plan.before",
            number=len(before),
            way=describe(last.training),
            peak=Bytes(last.peak, "GiB"),
        )
        return what, needs, why


_MODES: Mapping[Mode, str] = {
    "single": "mode.single",
    "ddp": "mode.ddp",
    "fsdp": "mode.fsdp",
    "hybrid": "mode.hybrid",
    "zero1": "mode.zero1",
    "zero2": "mode.zero2",
    "zero3": "mode.zero3",
}
_OFFLOADS: Mapping[Offload, str] = {"optimizer": "offload.optimizer", "parameters": "offload.parameters"}
_MOMENTS: Mapping[str, str] = {
    "gather": "moment.gather",
    "forward": "moment.forward",
    "loss": "moment.loss",
    "head": "moment.head",
    "layer": "moment.layer",
    "reduce": "moment.reduce",
    "first": "moment.first",
    "backward": "moment.backward",
    "step": "moment.step",
}


def describe(training: Training) -> Several:
    """A way of training in a few words."""
    parts = [Phrase(_MODES[training.mode])]
    if isinstance(training.tuning, Lora):
        key = "plan.qlora" if training.tuning.quantized else "plan.lora"
        parts.insert(0, Phrase(key, rank=training.tuning.rank))
    if training.checkpointing:
        parts.append(Phrase("plan.checkpointing"))
    if training.offload != "none":
        parts.append(Phrase(_OFFLOADS[training.offload]))
    parts.append(Phrase("plan.context", context=training.context))
    return Several(tuple(parts), "clause")


def describe_moment(moment: Moment) -> Phrase:
    """When in a step it is."""
    return Phrase(_MOMENTS[moment.name])


def describe_host(estimate: MemoryEstimate) -> Value:
    """What all ranks need of the host, where they need anything."""
    if not estimate.host:
        return ""
    return Phrase("plan.host", host=Bytes(estimate.host * estimate.ranks, "GiB"))


def largest_micro_batch(
    shape: TrainingShape, machine: Machine, training: Training, reserve: int = RESERVE
) -> int:
    """Most samples in one forward that fit on each GPU, up to 4096; 0 when not even one does.

    `training.micro_batch` does not matter. Memory grows with the micro-batch, so halving finds it. Raises as
    `training_memory`.
    """
    low, high = 0, 1
    while high <= LARGEST and _attempt(shape, machine, replace(training, micro_batch=high), reserve).fits:
        low, high = high, high * 2
    while high - low > 1 and high <= LARGEST:
        middle = (low + high) // 2
        if _attempt(shape, machine, replace(training, micro_batch=middle), reserve).fits:
            low = middle
        else:
            high = middle
    return low


def levers(
    training: Training, ranks: int, sharding: Sharding = "fsdp", adapters: Lora | None = None
) -> Iterator[Training]:
    """`training` and then what saves more and more memory, in the order of what it costs.

    First nothing but what was asked for; then time (checkpointing, spreading, the host), then what is learnt
    (adapters, 4 bits), last the context. Who asks for adapters gets no full training; who does not gets
    `adapters` where nothing else fits.
    """
    lora = adapters or Lora()
    modes: tuple[Mode, ...] = (
        ("single",) if ranks == 1 else ("ddp", "fsdp") if sharding == "fsdp" else ("ddp", "zero2", "zero3")
    )
    plain: Training = replace(training, mode=modes[0], offload="none")
    yield plain
    if not plain.checkpointing:
        yield replace(plain, checkpointing=True)
    for mode in modes[1:]:
        yield replace(plain, mode=mode)
        if not plain.checkpointing:
            yield replace(plain, mode=mode, checkpointing=True)
    heavy = replace(plain, mode=modes[-1], checkpointing=True)
    if ranks > 1:
        # On one GPU only DeepSpeed moves states to the host; plain torch does not.
        if sharding == "deepspeed":
            yield replace(heavy, offload="optimizer")
        yield replace(heavy, offload="parameters")
    if isinstance(training.tuning, Full):
        tuned = replace(plain, checkpointing=True, tuning=lora)
        yield tuned
        if ranks > 1:
            yield replace(tuned, mode=modes[-1])
        last = replace(tuned, tuning=replace(lora, quantized=True))
        yield last
    else:
        last = replace(heavy, tuning=replace(training.tuning, quantized=True)) if ranks == 1 else heavy
        if last != heavy:
            yield last
    context = last.context // 2
    while context >= SHORTEST:
        yield replace(last, context=context)
        context //= 2


def parted(samples: int, largest: int) -> tuple[int, int]:
    """The largest micro-batch up to `largest`, and the accumulation.

    Together they make exactly so many samples of one rank.
    """
    micro = next(each for each in range(min(samples, largest), 0, -1) if samples % each == 0)
    return micro, samples // micro


def choose_launch(
    shape: TrainingShape,
    machine: Machine,
    training: Training | None = None,
    *,
    global_batch: int = 1,
    sharding: Sharding = "fsdp",
    reserve: int = RESERVE,
) -> LaunchPlan:
    """The first of `levers` that fits, with its largest useful micro-batch.

    Accumulation makes up `global_batch`.

    `training` says what is wanted (precision, optimizer, context, adapters); its mode, offload, micro-batch
    and accumulation are chosen here. Raises as `training_memory`.
    """
    wanted = training or Training()
    ranks = wanted.chosen_ranks or len(machine.gpus)
    attempts: list[Attempt] = []
    experts = shape.dimensions is not None and shape.dimensions.experts > 0
    adapters = Lora(targets=ATTENTION) if experts else Lora()
    for way in levers(replace(wanted, micro_batch=1), ranks, sharding, adapters):
        share = -(-global_batch // ranks)
        accumulated = replace(way, accumulation=2 if share > 1 else 1)
        found = largest_micro_batch(shape, machine, accumulated, reserve)
        attempts.append(_attempt(shape, machine, replace(accumulated, micro_batch=max(found, 1)), reserve))
        if found:
            micro, steps = parted(share, found)
            chosen = replace(way, micro_batch=micro, accumulation=steps)
            return _plan(shape, machine, chosen, attempts, reserve)
    nearest = min(attempts, key=lambda attempt: attempt.peak)
    return _plan(shape, machine, nearest.training, attempts, reserve)


def _plan(
    shape: TrainingShape, machine: Machine, training: Training, attempts: list[Attempt], reserve: int
) -> LaunchPlan:
    estimate = training_memory(shape, machine, training)
    last = _attempt(shape, machine, training, reserve)
    batch = training.micro_batch * training.accumulation * estimate.ranks
    before = attempts[:-1] if last.fits else attempts
    return LaunchPlan(
        shape, training, estimate, capacity(machine, reserve), last.fits, batch, (*before, last)
    )


def _attempt(shape: TrainingShape, machine: Machine, training: Training, reserve: int) -> Attempt:
    estimate = training_memory(shape, machine, training)
    host = estimate.host * estimate.ranks
    fits = estimate.peak <= capacity(machine, reserve) and (
        machine.host_memory is None or host <= machine.host_memory
    )
    return Attempt(training, estimate.peak, host, fits)
