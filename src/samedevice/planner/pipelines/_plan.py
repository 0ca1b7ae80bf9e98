"""Components of a pipeline on the GPUs of a machine, with the proof that it runs there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from samedevice.errors import UsageError
from samedevice.machines import Machine
from samedevice.messages import Bytes, Phrase
from samedevice.planner._trial import Peak, Proof, budgets_of
from samedevice.planner.inference import RESERVE
from samedevice.planner.inference._plan import slots_of
from samedevice.planner.pipelines._offload import AUTOENCODER, OFFLOADS, Offload, tiled
from samedevice.planner.pipelines._placing import Component, Placement, load_of, place_whole
from samedevice.planner.pipelines._source import PipelineSource, find_pipeline
from samedevice.planner.pipelines._trial import (
    Picture,
    PipelineProfile,
    profile_pipeline,
    prove_offload,
    prove_pipeline,
)

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
    peak: Peak | None
    """What the proof measured; None where there was none."""
    budget: int

    @property
    def free(self) -> int:
        """What is left of the budget at the worst moment, by the proof where there is one."""
        return self.budget - (self.planned if self.peak is None else self.peak.allocated)


@dataclass(frozen=True, slots=True)
class Offloaded:
    """A way to keep the components on the host, and what its trial showed."""

    offload: Offload
    gpu: int
    proof: Proof
    room: int
    """Bytes left of the GPU's budget; negative where it lacks them."""


@dataclass(frozen=True, slots=True)
class PipelinePlan:
    """Where each component is to be.

    Where no placement fits, the one that lacks the fewest bytes, and the fastest offload that one GPU can do.
    """

    source: PipelineSource
    machine: Machine
    picture: Picture
    reserve: int
    profile: PipelineProfile
    components: tuple[Component, ...]
    """As they were measured, with what trials added."""
    placement: Placement
    proof: Proof | None
    """Of the placement."""
    rounds: int
    offloads: tuple[Offloaded, ...] = ()
    """Where no placement fits: those that were tried, in their order; the last one holds, or none does."""

    @property
    def fits(self) -> bool:
        """Whether a placement fits by calculation."""
        return self.placement.room >= 0

    @property
    def last_proof(self) -> Proof | None:
        """That of the placement; where none fits, that of the offload."""
        return self.offloads[-1].proof if self.offloads else self.proof

    @property
    def proved(self) -> bool:
        """Whether placement or offload was tried and held."""
        budgets = budgets_of(self.machine, self.reserve)
        return self.last_proof is not None and self.last_proof.holds(budgets)

    @property
    def chosen(self) -> Offloaded | None:
        """The offload that was tried and held; None where the plan is a placement, or nothing holds."""
        return self.offloads[-1] if self.offloads and self.proved else None

    @property
    def shares(self) -> tuple[PipelineShare, ...]:
        """The GPUs in use."""
        budgets = budgets_of(self.machine, self.reserve)
        if self.chosen is not None:
            (only,) = self.chosen.proof.peaks
            most = only.allocated
            return (PipelineShare(only.gpu, self.components, 0, most, most, only, budgets[only.gpu]),)
        peaks = {peak.gpu: peak for peak in self.proof.peaks} if self.proof is not None else {}
        shares = []
        for gpu, planned in self.placement.loads.items():
            own = tuple(each for each in self.components if self.placement.gpus[each.name] == gpu)
            weights = sum(each.weights for each in own)
            peak = peaks.get(gpu)
            most = planned if peak is None else peak.allocated
            shares.append(
                PipelineShare(gpu, own, weights, max(most - weights, 0), planned, peak, budgets[gpu])
            )
        return tuple(shares)

    @property
    def room(self) -> int:
        """Bytes left on the GPU with the fewest; negative where it does not fit."""
        return min(share.free for share in self.shares)

    @property
    def unused(self) -> tuple[int, ...]:
        """GPUs that get nothing."""
        used = {share.gpu for share in self.shares}
        return tuple(gpu for gpu in range(len(self.machine.gpus)) if gpu not in used)

    @property
    def ways_out(self) -> tuple[Phrase, ...]:
        """What would fit where nothing that was tried does; by calculation."""
        if self.fits or self.proved:
            return ()
        largest = max(self.components, key=lambda each: load_of([each]))
        most, whole = load_of([largest]), max(budgets_of(self.machine, self.reserve).values())
        ways = []
        if most > whole:
            ways.append(
                Phrase("pipeline.too-large", name=largest.name, needed=Bytes(most), budget=Bytes(whole))
            )
            ways.append(Phrase("pipeline.out-cut", name=largest.name))
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

    Where none fits, the fastest offload to the host with which the largest GPU is enough, proved likewise.

    Args:
        model: a folder with a `model_index.json`, or a name on the hub.
        machine: what it is to run on.
        picture: what one call is to make.
        reserve: bytes of each GPU that are left alone.
        dtype: type of the weights; None for bfloat16.
        tell: is told each step.

    Raises UsageError for what is no pipeline, and where diffusers is missing.
    """
    if picture.batch < 1 or (picture.frames is not None and picture.frames < 1):
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
            source, machine, picture, reserve, profile, components, placement, None, number - 1
        )
        if not plan.fits:
            return replace(plan, offloads=_offloads(plan, say))
        say(Phrase("place.step-proof", number=number))
        proof = prove_pipeline(source, machine, placement.gpus, picture, profile.made)
        plan = replace(plan, proof=proof, rounds=number)
        if plan.proved or proof.error is not None or proof.different is not None or proof.events:
            return plan
        missing = max(-plan.room, 0)
        if not missing:
            return plan
        more += missing  # what the calculation did not know: every component is told to need it
    return plan


def _offloads(plan: PipelinePlan, say: Callable[[Phrase], object]) -> tuple[Offloaded, ...]:
    """Offloads up to the first that holds; none where none can help.

    An offload moves weights; what a component needs while it runs, it needs in any case. Only an autoencoder
    needs less where it works on tiles.
    """
    profile, budgets = plan.profile, budgets_of(plan.machine, plan.reserve)
    gpu = max(budgets, key=lambda each: (budgets[each], -each))
    heavy = [each.name for each in profile.components if each.working > budgets[gpu]]
    if heavy and not (heavy == [AUTOENCODER] and profile.tiles):
        return ()
    found: list[Offloaded] = []
    for offload in OFFLOADS:
        if offload.whole and any(
            each.weights + (0 if each.name in heavy else each.working) > budgets[gpu]
            for each in profile.components
        ):
            continue
        asked = tiled(offload) if heavy else offload
        say(Phrase("pipeline.step-offload", method=asked.call()))
        proof = prove_offload(plan.source, plan.machine, gpu, asked, plan.picture, profile.made)
        found.append(Offloaded(asked, gpu, proof, budgets[gpu] - proof.peaks[0].allocated))
        if proof.holds(budgets):
            break
    return tuple(found)
