"""A plan for a diffusion pipeline as a page."""

from __future__ import annotations

from samedevice.messages import Bytes, Language, Phrase
from samedevice.planner.pipelines import PipelinePlan
from samedevice.report._render import render
from samedevice.report._words import harmless
from samedevice.report.plan import PHASES, pipeline_findings, pipeline_foot, pipeline_head, pipeline_state
from samedevice.report.web._page import BlockRow, Lane, Part, amount, cards, facts, page, percent

_WORDS = ("page.machine", "page.result", "page.over-time", "page.class", "place.unused")
_APART = {"weights": Phrase("place.weights"), "working": Phrase("place.working")}
_TOGETHER = {"weights": Phrase("pipeline.in-use")}
_REST = {"free": Phrase("place.free"), "reserve": Phrase("page.reserve")}


def pipeline_page(plan: PipelinePlan, language: Language, *, version: str) -> str:
    """What each GPU holds, its components with their bytes, and what proves it."""
    title = Phrase("page.plan-title", model=harmless(plan.source.name), machine=plan.machine.spec)
    columns = ("place.weights", "place.working")
    return page(
        "plan.html",
        language,
        _WORDS,
        version,
        title=render(title, language),
        state=render(pipeline_state(plan), language),
        good=plan.proved,
        head=facts(pipeline_head(plan), language),
        block=render(Phrase("pipeline.component"), language),
        columns=[render(Phrase(key), language) for key in columns],
        lanes=_lanes(plan, language),
        unused=[
            (f"cuda:{gpu}", plan.machine.gpus[gpu].name, amount(plan.machine.gpus[gpu].total_memory))
            for gpu in plan.unused
        ],
        foot=facts(pipeline_foot(plan), language),
        beside=None,
        cards=cards(pipeline_findings(plan, language), language),
    )


def _lanes(plan: PipelinePlan, language: Language) -> list[Lane]:
    lanes = []
    labels = {**(_APART if plan.chosen is None else _TOGETHER), **_REST}
    for share in plan.shares:
        gpu = plan.machine.gpus[share.gpu]
        sizes = (*share.in_use, share.free, plan.reserve)
        held = sum(max(size, 0) for size in sizes)
        whole = max(held, gpu.total_memory)
        peaks = {} if share.peak is None else share.peak.phases
        lanes.append(
            Lane(
                f"cuda:{share.gpu}",
                gpu.name,
                amount(gpu.total_memory),
                tuple(
                    Part(kind, render(label, language), amount(size), percent(size, whole))
                    for (kind, label), size in zip(labels.items(), sizes, strict=True)
                ),
                percent(gpu.total_memory, whole) if held > gpu.total_memory else None,
                render(Phrase("pipeline.components"), language),
                tuple(
                    BlockRow(
                        harmless(each.name),
                        harmless(each.kind),
                        each.weights,
                        (str(Bytes(each.weights)), str(Bytes(each.working))),
                    )
                    for each in share.components
                ),
                tuple(
                    Part(
                        "peak",
                        render(PHASES[name], language),
                        amount(size),
                        min(percent(size, gpu.total_memory), 100.0),
                    )
                    for name, size in peaks.items()
                ),
            )
        )
    return lanes
