"""A plan as a page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from samedevice.messages import Bytes, Language, Phrase, Value
from samedevice.planner.inference import Block, PlacementPlan, Proof, Share
from samedevice.report._render import render
from samedevice.report._words import harmless
from samedevice.report.plan import PHASES, Plan, working
from samedevice.report.web._page import BlockRow, Lane, Part, amount, cards, facts, page, percent

_WORDS = (
    "page.machine",
    "page.result",
    "page.over-time",
    "page.beside-auto",
    "page.the-plan",
    "page.auto",
    "memory.device",
    "page.class",
    "place.unused",
)


def plan_page(
    plan: Plan,
    language: Language,
    *,
    version: str,
    map_file: str | None = None,
    automatic: Proof | None = None,
) -> str:
    """The plan: what each GPU holds and when, every block with its bytes, what proves it.

    `automatic` is the trial of `device_map="auto"` on the same machine; it stands beside the plan.
    """
    placed = plan.placed
    name = harmless(placed.profile.source.name)
    title = render(Phrase("page.plan-title", model=name, machine=placed.machine.spec), language)
    state = Phrase("page.proved" if placed.proved else "page.fails" if placed.fits else "page.unfit")
    return page(
        "plan.html",
        language,
        _WORDS,
        version,
        title=title,
        state=render(state, language),
        good=placed.proved,
        head=facts(plan.head(), language),
        block=render(Phrase("page.block"), language),
        columns=[render(Phrase(key), language) for key in ("place.weights", "place.cache")],
        lanes=_lanes(placed, language),
        unused=[
            (f"cuda:{gpu}", placed.machine.gpus[gpu].name, amount(placed.machine.gpus[gpu].total_memory))
            for gpu in placed.unused
        ],
        foot=facts(plan.foot(map_file), language),
        beside=None if automatic is None else _beside(placed, automatic, language),
        cards=cards(plan.findings, language),
    )


@dataclass(frozen=True, slots=True)
class Beside:
    """The plan and `device_map="auto"`, GPU by GPU."""

    said: str
    """What came of `auto`, and how the largest loads compare."""
    rows: tuple[tuple[str, str, float, str, float], ...]
    """GPU; the plan's peak and its percent of the memory; those of `auto`."""


def _beside(placed: PlacementPlan, automatic: Proof, language: Language) -> Beside:
    ours = {
        share.gpu: share.planned.total if share.peak is None else share.peak.allocated
        for share in placed.shares
    }
    theirs = {peak.gpu: peak.allocated for peak in automatic.peaks}
    rows = []
    for number, gpu in enumerate(placed.machine.gpus):
        plan, auto = ours.get(number, 0), theirs.get(number, 0)
        shares = (min(percent(size, gpu.total_memory), 100.0) for size in (plan, auto))
        first, second = shares
        rows.append((f"cuda:{number}", str(Bytes(plan)), first, str(Bytes(auto)), second))
    return Beside(render(_said_of_auto(placed, automatic, ours, theirs), language), tuple(rows))


def _said_of_auto(
    placed: PlacementPlan, automatic: Proof, ours: Mapping[int, int], theirs: Mapping[int, int]
) -> Phrase:
    if automatic.error is not None:
        return Phrase("page.auto-failed", error=harmless(automatic.error))
    if automatic.out_of_memory:
        return Phrase("page.auto-oom")
    largest, other = max(ours.values()), max(theirs.values(), default=0)
    rooms = [placed.machine.gpus[gpu].total_memory - placed.reserve - size for gpu, size in theirs.items()]
    room = min(rooms, default=0)
    values: dict[str, Value] = {
        "largest": Bytes(largest),
        "other": Bytes(other),
        "ratio": f"{other / max(largest, 1):.2f}",
    }
    if any(isinstance(place, str) for place in automatic.device_map.values()):
        return Phrase("page.auto-away", **values)
    if automatic.events:
        return Phrase("page.auto-found", count=len(automatic.events), **values)
    if room < 0:
        return Phrase("page.auto-over", missing=Bytes(-room), **values)
    return Phrase("page.auto-fits", **values)


def _lanes(placed: PlacementPlan, language: Language) -> list[Lane]:
    return [
        _lane(placed, share, placed.profile.blocks[run.start : run.stop], language)
        for run, share in zip(placed.division.runs, placed.shares, strict=True)
    ]


def _lane(placed: PlacementPlan, share: Share, blocks: Sequence[Block], language: Language) -> Lane:
    gpu = placed.machine.gpus[share.gpu]
    sizes = {
        "weights": share.planned.weights,
        "cache": share.planned.cache,
        "working": working(share),
        "free": share.free,
        "reserve": placed.reserve,
    }
    labels = (
        Phrase("place.weights"),
        Phrase("place.cache"),
        Phrase("place.working"),
        Phrase("place.free"),
        Phrase("page.reserve"),
    )
    held = sum(max(size, 0) for size in sizes.values())
    whole = max(held, gpu.total_memory)
    return Lane(
        f"cuda:{share.gpu}",
        gpu.name,
        amount(gpu.total_memory),
        tuple(
            Part(kind, render(label, language), amount(size), percent(size, whole))
            for (kind, size), label in zip(sizes.items(), labels, strict=True)
        ),
        percent(gpu.total_memory, whole) if held > gpu.total_memory else None,
        render(Phrase("page.blocks", count=len(share.blocks)), language),
        tuple(
            BlockRow(
                harmless(", ".join(block.names)),
                harmless(block.kind),
                block.kept,
                (str(Bytes(block.weights)), str(Bytes(block.cache))),
            )
            for block in blocks
        ),
        _moments(share, gpu.total_memory, language),
    )


def _moments(share: Share, total: int, language: Language) -> tuple[Part, ...]:
    """Peaks while it loads, reads the prompt and makes the last token, as the proof measured them."""
    if share.peak is None:
        return ()
    return tuple(
        Part("peak", render(PHASES[name], language), amount(size), min(percent(size, total), 100.0))
        for name, size in share.peak.phases.items()
    )
