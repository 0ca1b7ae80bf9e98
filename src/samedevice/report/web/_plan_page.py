"""A plan as a page."""

from __future__ import annotations

from collections.abc import Sequence

from samedevice.messages import Bytes, Language, Phrase
from samedevice.planner.inference import Block, PlacementPlan, Share
from samedevice.report._render import render
from samedevice.report._words import harmless
from samedevice.report.plan import Plan, working
from samedevice.report.web._page import BlockRow, Lane, Part, amount, cards, facts, page, percent

_WORDS = (
    "page.machine",
    "page.result",
    "page.over-time",
    "page.block",
    "page.class",
    "place.weights",
    "place.cache",
    "place.unused",
)


def plan_page(plan: Plan, language: Language, *, version: str, map_file: str | None = None) -> str:
    """The plan: what each GPU holds and when, every block with its bytes, what proves it."""
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
        lanes=_lanes(placed, language),
        unused=[
            (f"cuda:{gpu}", placed.machine.gpus[gpu].name, amount(placed.machine.gpus[gpu].total_memory))
            for gpu in placed.unused
        ],
        foot=facts(plan.foot(map_file), language),
        cards=cards(plan.findings, language),
    )


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
    peaks = (
        (Phrase("place.phase-load"), share.peak.load),
        (Phrase("place.phase-prompt"), share.peak.prompt),
        (Phrase("place.phase-last"), share.peak.last),
    )
    return tuple(
        Part("peak", render(label, language), amount(size), min(percent(size, total), 100.0))
        for label, size in peaks
    )
