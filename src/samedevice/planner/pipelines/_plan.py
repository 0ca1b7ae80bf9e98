"""Components of a pipeline on the GPUs of a machine, with the proof that it runs there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from samedevice.errors import UsageError
from samedevice.machines import Machine
from samedevice.messages import Bytes, Phrase
from samedevice.planner.inference import RESERVE
from samedevice.planner.inference._plan import slots_of
from samedevice.planner.inference._proof import budgets_of
from samedevice.planner.pipelines._placing import Component, Placement, load_of, place_whole
from samedevice.planner.pipelines._source import PipelineSource, find_pipeline
from samedevice.planner.pipelines._trial import Picture, PipelineProof, profile_pipeline, prove_pipeline

_TRIALS = 4


@dataclass(frozen=True, slots=True)
class PipelineShare:
    """What one GPU gets; bytes."""

    gpu: int
    components: tuple[Component, ...]
    weights: int
    working: int
    """Beyond the weights at the worst moment, by the proof where there is one."""
    planned: int
    """The peak by calculation."""
    load: int | None
    """Peak while it is loaded, as the proof measured it; None where there was none."""
    run: int | None
    """The same while it runs."""
    budget: int

    @property
    def peak(self) -> int:
        """The most, by the proof where there is one."""
        return self.planned if self.load is None or self.run is None else max(self.load, self.run)

    @property
    def free(self) -> int:
        """What is left of the budget at the worst moment."""
        return self.budget - self.peak


@dataclass(frozen=True, slots=True)
class PipelinePlan:
    """Where each component is to be; where no placement fits, the one that lacks the fewest bytes."""

    source: PipelineSource
    machine: Machine
    picture: Picture
    reserve: int
    components: tuple[Component, ...]
    held: int
    """Bytes that the pipeline itself keeps while components change."""
    placement: Placement
    proof: PipelineProof | None
    rounds: int

    @property
    def fits(self) -> bool:
        """Whether it fits by calculation."""
        return self.placement.room >= 0

    @property
    def proved(self) -> bool:
        """Whether it was tried and held."""
        budgets = budgets_of(self.machine, self.reserve)
        return self.fits and self.proof is not None and self.proof.holds(budgets)

    @property
    def shares(self) -> tuple[PipelineShare, ...]:
        """The GPUs in use."""
        budgets = budgets_of(self.machine, self.reserve)
        peaks = {peak.gpu: peak for peak in self.proof.peaks} if self.proof is not None else {}
        shares = []
        for gpu, planned in self.placement.loads.items():
            own = tuple(each for each in self.components if self.placement.gpus[each.name] == gpu)
            weights = sum(each.weights for each in own)
            peak = peaks.get(gpu)
            most = planned if peak is None else peak.allocated
            shares.append(
                PipelineShare(
                    gpu,
                    own,
                    weights,
                    max(most - weights, 0),
                    planned,
                    None if peak is None else peak.load,
                    None if peak is None else peak.run,
                    budgets[gpu],
                )
            )
        return tuple(shares)

    @property
    def room(self) -> int:
        """Bytes left on the GPU with the fewest; negative where it does not fit."""
        return min(share.free for share in self.shares)

    @property
    def unused(self) -> tuple[int, ...]:
        """GPUs that get nothing."""
        return tuple(gpu for gpu in range(len(self.machine.gpus)) if gpu not in self.placement.loads)

    @property
    def ways_out(self) -> tuple[Phrase, ...]:
        """What would fit where this does not; by calculation."""
        if self.fits:
            return ()
        largest = max(self.components, key=lambda each: load_of([each]))
        most, whole = load_of([largest]), max(budgets_of(self.machine, self.reserve).values())
        ways = []
        if most > whole:
            ways.append(
                Phrase("pipeline.too-large", name=largest.name, needed=Bytes(most), budget=Bytes(whole))
            )
            ways.append(Phrase("pipeline.out-cut", name=largest.name))
        else:
            ways.append(Phrase("pipeline.out-offload", needed=Bytes(most + self.held)))
        if self.source.dtype == "float32":
            ways.append(Phrase("pipeline.out-half"))
        return tuple(ways)


def place_pipeline(
    model: str,
    machine: Machine,
    picture: Picture,
    *,
    reserve: int = RESERVE,
    dtype: str | None = None,
    tell: Callable[[Phrase], object] | None = None,
) -> PipelinePlan:
    """The best placement of a pipeline's whole components on a machine, proved on a virtual one.

    Args:
        model: a folder with a `model_index.json`, or a name on the hub.
        machine: what it is to run on.
        picture: what one call is to make.
        reserve: bytes of each GPU that are left alone.
        dtype: type of the weights; None for bfloat16.
        tell: is told each step.

    Raises UsageError for what is no pipeline, and where diffusers is missing.
    """
    if picture.batch < 1:
        raise UsageError(Phrase("place.workload"))
    budgets = [slot.budget for slot in slots_of(machine, reserve, {})]
    say = tell or (lambda _: None)
    source = find_pipeline(model, dtype)
    say(Phrase("place.step-profile", model=source.name))
    profile = profile_pipeline(source, picture)
    more = 0
    for number in range(1, _TRIALS + 1):
        components = tuple(replace(each, working=each.working + more) for each in profile.components)
        placement = place_whole(components, budgets, profile.held + more)
        plan = PipelinePlan(
            source, machine, picture, reserve, components, profile.held, placement, None, number - 1
        )
        if not plan.fits:
            return plan
        say(Phrase("place.step-proof", number=number))
        proof = prove_pipeline(source, machine, placement.gpus, picture)
        plan = replace(plan, proof=proof, rounds=number)
        if plan.proved or proof.error is not None or proof.events:
            return plan
        missing = max(-plan.room, 0)
        if not missing:
            return plan
        more += missing  # what the calculation did not know: every component is told to need it
    return plan
