"""Components of a pipeline on the GPUs of a machine, with the proof that it runs there."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache

from samedevice.errors import UsageError
from samedevice.machines import Machine
from samedevice.messages import Bytes, Phrase
from samedevice.planner._trial import Peak, Proof, budgets_of
from samedevice.planner.inference import RESERVE, Offer, fewest_of_each
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
    weights: int | None
    """None where weights come and go."""
    working: int | None
    """Beyond the weights at the worst moment, by the proof where there is one; None likewise."""
    planned: int
    """The peak by calculation; where weights come and go, as it was measured."""
    peak: Peak | None
    """What the proof measured; None where there was none."""
    budget: int

    @property
    def in_use(self) -> tuple[int, ...]:
        """Weights and what is needed beyond them; all in one where they are not told apart."""
        if self.weights is None or self.working is None:
            return (self.planned,)
        return self.weights, self.working

    @property
    def free(self) -> int:
        """What is left of the budget at the worst moment, by the proof where there is one."""
        return self.budget - (self.planned if self.peak is None else self.peak.allocated)


@dataclass(frozen=True, slots=True)
class Offloaded:
    """A way to keep the components on the host, and what its trial showed."""

    offload: Offload
    gpu: int
    proof: Proof | None
    """None where it was not tried, since it does not fit by calculation."""
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
    def weights(self) -> int:
        """Of all components."""
        return sum(each.weights for each in self.components)

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
        if self.chosen is not None and self.chosen.proof is not None:
            (only,) = self.chosen.proof.peaks
            most = only.allocated
            return (PipelineShare(only.gpu, self.components, None, None, most, only, budgets[only.gpu]),)
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
        return () if self.fits or self.proved else tuple(self._ways_out())

    def _ways_out(self) -> Iterator[Phrase]:
        budgets = budgets_of(self.machine, self.reserve)
        whole = max(budgets.values())
        heavy = [each for each in self.components if each.working > whole]
        for each in heavy:
            yield Phrase(
                "pipeline.too-much-working",
                name=each.name,
                working=Bytes(each.working),
                weights=Bytes(each.weights),
                budget=Bytes(whole),
            )
        if heavy and (levers := tuple(self._levers())):
            yield Phrase("pipeline.out-smaller", options=", ".join(levers))
        if not self.offloads and self.profile.tiles and any(each.name == AUTOENCODER for each in heavy):
            yield Phrase("pipeline.out-tiles", name=AUTOENCODER)
        for each in self.components:
            if each not in heavy and load_of([each]) > whole:
                needed = Bytes(load_of([each]))
                yield Phrase("pipeline.too-large", name=each.name, needed=needed, budget=Bytes(whole))
                if len(budgets) > 1:
                    yield Phrase("pipeline.out-cut", name=each.name)
        if self.host_lacks:
            yield Phrase(
                "pipeline.host",
                needed=Bytes(self.weights),
                missing=Bytes(self.host_lacks),
            )
        if self.source.dtype == "float32":
            yield Phrase("pipeline.out-half")

    @property
    def host_lacks(self) -> int:
        """Bytes that the host lacks for an offload, which keeps all weights there; 0 where it is not said."""
        host = self.machine.host_memory
        return 0 if host is None else max(self.weights - host, 0)

    def _levers(self) -> Iterator[str]:
        """Options whose smaller values need less working memory."""
        if self.picture.batch > 1:
            yield "--batch"
        yield from self.profile.levers


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
    if picture.size is not None and min(picture.size) < 1:
        raise UsageError(Phrase("place.no-image-size", given=f"{picture.size[0]}x{picture.size[1]}"))
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


def machines_for_pipeline(
    model: str,
    picture: Picture,
    *,
    reserve: int = RESERVE,
    dtype: str | None = None,
    prices: Mapping[str, float] | None = None,
) -> tuple[PipelineSource, list[Offer]]:
    """The machines of the table on which whole components of a pipeline fit by calculation.

    Raises what `place_pipeline` raises.
    """
    source = find_pipeline(model, dtype)
    profile = profile_pipeline(source, picture)

    @cache
    def fullest(count: int) -> int:
        return -place_whole(profile.components, [0] * count, profile.held).room

    return source, fewest_of_each(lambda budget, count: budget - fullest(count), reserve, prices or {})


def _offloads(plan: PipelinePlan, say: Callable[[Phrase], object]) -> tuple[Offloaded, ...]:
    """Offloads up to the first that holds; none where none can help, or the host has no room for the weights.

    An offload moves weights; what a component needs while it runs, it needs in any case. Only an autoencoder
    needs less where it works on tiles.
    """
    profile, budgets = plan.profile, budgets_of(plan.machine, plan.reserve)
    gpu = max(budgets, key=lambda each: (budgets[each], -each))
    heavy = [each.name for each in profile.components if each.working > budgets[gpu]]
    if plan.host_lacks or (heavy and not (heavy == [AUTOENCODER] and profile.tiles)):
        return ()
    most = max(each.weights + (0 if each.name in heavy else each.working) for each in profile.components)
    found: list[Offloaded] = []
    for offload in OFFLOADS:
        asked = tiled(offload) if heavy else offload
        if offload.whole and most > budgets[gpu]:
            found.append(Offloaded(asked, gpu, None, budgets[gpu] - most))
            continue
        say(Phrase("pipeline.step-offload", method=asked.call()))
        proof = prove_offload(plan.source, plan.machine, gpu, asked, plan.picture, profile.made)
        found.append(Offloaded(asked, gpu, proof, budgets[gpu] - proof.peaks[0].allocated))
        if proof.holds(budgets):
            break
    return tuple(found)
