"""A device map that fits a machine, with the proof that it does."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

from samedevice.errors import UsageError
from samedevice.machines import Machine
from samedevice.messages import Bytes, Phrase
from samedevice.planner._shape import parsed_config
from samedevice.planner._trial import Peak, Proof, budgets_of
from samedevice.planner.inference._advice import Offer, offers, quantized, ways_out
from samedevice.planner.inference._blocks import Loads, Part, Workload
from samedevice.planner.inference._division import OBJECTIVES, Division, Objective, Run, Slot, divide
from samedevice.planner.inference._engines import Serving, serving
from samedevice.planner.inference._lessons import Lesson, lessons_of, with_lessons
from samedevice.planner.inference._longest import GRAIN, Axis, Most, most_that_fits
from samedevice.planner.inference._pictures import pictures_of
from samedevice.planner.inference._profile import Measure, Profile, measuring, profile_model
from samedevice.planner.inference._proof import prove
from samedevice.planner.inference._sounds import reads_sound
from samedevice.planner.inference._source import Model, ModelSource, find_model, model_class

RESERVE = 1 << 30
"""Bytes of each GPU that a plan leaves alone: CUDA context, cuBLAS, fragmentation. A choice, not a
measurement.
"""
_FEWEST_BITS = 4
"""Of a weight, where a prompt fits only with fewer of them."""
_TRIALS = 16
"""Of one plan; each that fails changes the row of blocks, so there are seldom more than three."""

Lessons = tuple[Lesson, ...]
Step = Callable[[Phrase], object]


@dataclass(frozen=True, slots=True)
class Share:
    """What one GPU gets of a model; bytes."""

    gpu: int
    blocks: tuple[str, ...]
    planned: Part
    budget: int
    peak: Peak | None
    """What the proof measured; None where there was none."""

    @property
    def free(self) -> int:
        """What is left of the budget at the worst moment, by the proof where there is one."""
        used = self.planned.total if self.peak is None else self.peak.allocated
        return self.budget - used


@dataclass(frozen=True, slots=True)
class PlacementPlan:
    """Where each block of a model is to be.

    The best plan by its objective; where none fits, the one that lacks the fewest bytes.
    """

    machine: Machine
    profile: Profile
    objective: Objective
    reserve: int
    division: Division
    proof: Proof | None
    rounds: int
    """Trials that were made."""
    most: Most | None = None
    """The largest number that fits, where it was asked for."""
    ways_out: tuple[Phrase, ...] = ()
    """What would fit where this does not."""
    lessons: tuple[Lesson, ...] = ()
    """What the trials before the last one showed."""

    @property
    def workload(self) -> Workload:
        """What it was made for."""
        return self.profile.workload

    @property
    def fits(self) -> bool:
        """Whether it fits by calculation."""
        return self.division.room >= 0

    @property
    def proved(self) -> bool:
        """Whether it was tried and held."""
        return self.fits and self.proof is not None and self.proof.holds(self._budgets)

    @property
    def device_map(self) -> dict[str, int]:
        """What `from_pretrained` takes; in the order of execution."""
        return map_of(self.profile, self.division.runs)

    @property
    def shares(self) -> tuple[Share, ...]:
        """The GPUs in use, in the order of execution."""
        loads = Loads(self.profile.blocks)
        peaks = {peak.gpu: peak for peak in self.proof.peaks} if self.proof is not None else {}
        return tuple(
            Share(
                run.gpu,
                tuple(name for block in self.profile.blocks[run.start : run.stop] for name in block.names),
                loads.part(run.start, run.stop),
                self._budgets[run.gpu],
                peaks.get(run.gpu),
            )
            for run in self.division.runs
        )

    @property
    def room(self) -> int:
        """Bytes that are left on the GPU with the fewest; negative where it does not fit."""
        return min(share.free for share in self.shares)

    @property
    def serving(self) -> Serving | None:
        """How engines that split every layer would serve it; by calculation."""
        return serving(self.profile, self.machine, self.reserve)

    @property
    def unused(self) -> tuple[int, ...]:
        """GPUs of the machine that get nothing."""
        used = {run.gpu for run in self.division.runs}
        return tuple(gpu for gpu in range(len(self.machine.gpus)) if gpu not in used)

    @property
    def _budgets(self) -> dict[int, int]:
        return budgets_of(self.machine, self.reserve)


def map_of(profile: Profile, runs: tuple[Run, ...]) -> dict[str, int]:
    """The device map of a division; one entry for a model on one GPU."""
    if len(runs) == 1:
        return {"": runs[0].gpu}
    return {
        name: run.gpu
        for run in runs
        for block in profile.blocks[run.start : run.stop]
        for name in block.names
    }


def slots_of(machine: Machine, reserve: int, prices: Mapping[str, float]) -> list[Slot]:
    """The GPUs of a machine for a division.

    Raises UsageError where nothing is left of a GPU.
    """
    slots = []
    for index, budget in budgets_of(machine, reserve).items():
        gpu = machine.gpus[index]
        if budget <= 0:
            raise UsageError(
                Phrase("place.reserve", reserve=Bytes(reserve), gpu=gpu.name, total=Bytes(gpu.total_memory))
            )
        slots.append(Slot(budget, (gpu.bandwidth_gbps or 0.0) * 1e9, prices.get(gpu.key, 0.0)))
    return slots


def place_model(
    # Long: what is asked for has many parts.
    model: Model,
    machine: Machine,
    workload: Workload,
    *,
    objective: Objective = "room",
    most: Axis | None = None,
    reserve: int = RESERVE,
    dtype: str | None = None,
    prices: Mapping[str, float] | None = None,
    tell: Step | None = None,
) -> PlacementPlan:
    """The best placement of a model on a machine, proved on a virtual one.

    Args:
        model: a folder, a file, a name on the hub, or the values of a configuration.
        machine: what it is to run on.
        workload: what it is to do.
        objective: what is best.
        most: a number of the workload in whose place the largest one is taken that fits.
        reserve: bytes of each GPU that are left alone.
        dtype: type of the weights; None for what configuration or weights say.
        prices: of a GPU by its key; for the objective `price`.
        tell: is told each step.

    Raises UsageError for what is no model, and for a workload or an objective that cannot be.
    """
    if min(workload.batch, workload.context, workload.new_tokens) < 1:
        raise UsageError(Phrase("place.workload"))
    if objective not in OBJECTIVES:
        raise UsageError(Phrase("place.objective", given=objective, known=", ".join(OBJECTIVES)))
    slots = slots_of(machine, reserve, prices or {})
    _can_be_judged(objective, machine, slots, prices)
    say = tell or (lambda _: None)
    source = find_model(model, dtype)
    say(Phrase("place.step-profile", model=source.name))
    lessons: tuple[Lesson, ...] = ()
    least = _least(source, workload, most)
    while True:
        found = None
        with measuring(source) as measure:
            if most is not None:
                informed = _informed(measure, lessons)
                found = most_that_fits(informed, slots, workload, most, source.values, least)
                workload = workload.with_number(most, max(found.value, GRAIN[most], least))
            profile = measure(workload)
        plan = replace(place_profile(profile, machine, slots, objective, reserve, say, lessons), most=found)
        if plan.fits or found is None or not found.value or plan.lessons == lessons:
            break
        lessons = plan.lessons  # the largest number by calculation did not hold: what it showed makes it less
    if plan.fits:
        return plan
    out = ways_out(plan.profile, machine, slots, reserve)
    return replace(plan, ways_out=(*_fewer_tokens(source, workload, slots, most, lessons), *out))


def _informed(measure: Measure, lessons: Lessons) -> Measure:
    """The same measurements, with what trials showed."""

    def thought(work: Workload) -> Profile:
        profile = measure(work)
        return profile.with_blocks(with_lessons(profile.blocks, lessons))

    return thought


def _least(source: ModelSource, workload: Workload, axis: Axis | None) -> int:
    """The smallest number of a workload that is to be the largest: a prompt holds its pictures and a token.

    Raises UsageError for a prompt that is too short for its pictures, and for the length of one of sound.
    """
    if axis == "context" and reads_sound(model_class(source)):
        raise UsageError(Phrase("place.sound-context"))
    pictures = pictures_of(parsed_config(source.values), workload)
    if pictures is None:
        return 1
    if axis != "context":
        pictures.check(workload.context)
        return 1
    return pictures.length + 1


def _fewer_tokens(
    source: ModelSource, workload: Workload, slots: list[Slot], asked: Axis | None, lessons: Lessons
) -> Iterator[Phrase]:
    """The longest prompt that fits, where a shorter one does and none was asked for; else in 4 bits."""
    if asked is not None or reads_sound(model_class(source)):
        return
    least = _least(source, workload, "context")
    with measuring(source) as measure:
        informed = _informed(measure, lessons)
        found = most_that_fits(informed, slots, workload, "context", source.values, least)
        if found.value:
            yield Phrase("place.out-tokens", context=found.value)
            return
        if source.dtype == "float32":
            return

        def smaller(work: Workload) -> Profile:
            profile = informed(work)
            return profile.with_blocks(tuple(quantized(profile.blocks, _FEWEST_BITS)))

        found = most_that_fits(smaller, slots, workload, "context", source.values, least)
    if 0 < found.value < workload.context:
        yield Phrase("place.out-tokens-quantized", bits=_FEWEST_BITS, context=found.value)


def machines_for(
    model: Model,
    workload: Workload,
    *,
    reserve: int = RESERVE,
    dtype: str | None = None,
    prices: Mapping[str, float] | None = None,
) -> tuple[Profile, list[Offer]]:
    """The machines of the table on which a model fits by calculation, with what was measured of it."""
    profile = profile_model(find_model(model, dtype), workload)
    return profile, offers(profile, reserve, prices or {})


def _can_be_judged(
    objective: Objective, machine: Machine, slots: list[Slot], prices: Mapping[str, float] | None
) -> None:
    """Raises UsageError where an objective asks for what is not known of a GPU."""
    for gpu, slot in zip(machine.gpus, slots, strict=True):
        if objective == "stage" and not slot.speed:
            raise UsageError(Phrase("place.no-speed", gpu=gpu.key))
        if objective == "price" and gpu.key not in (prices or {}):
            raise UsageError(Phrase("place.no-price", gpu=gpu.key))


def place_profile(
    profile: Profile,
    machine: Machine,
    slots: list[Slot],
    objective: Objective,
    reserve: int,
    say: Step,
    lessons: Lessons = (),
) -> PlacementPlan:
    """The best placement of a measured model that a trial bears out.

    A trial that fails teaches the next plan, until one holds, nothing fits any more, or nothing is learnt.
    """
    budgets = budgets_of(machine, reserve)
    for number in range(1, _TRIALS + 1):
        thought = profile.with_blocks(with_lessons(profile.blocks, lessons))
        division = divide(Loads(thought.blocks), slots, objective)
        plan = PlacementPlan(
            machine, thought, objective, reserve, division, None, number - 1, lessons=lessons
        )
        if division.room < 0:
            return plan
        say(Phrase("place.step-proof", number=number))
        proof = prove(profile.source, machine, map_of(thought, division.runs), profile.workload)
        plan = replace(plan, proof=proof, rounds=number)
        if plan.proved:
            return plan
        new = lessons_of(proof, machine, thought.blocks, division.runs, budgets, lessons, number)
        if not new:
            # What fails as a whole, too, did not fail because it was divided.
            return replace(
                plan,
                lessons=tuple(each for each in lessons if each.error is None or each.error != proof.error),
            )
        lessons = (*lessons, *new)
    return plan
