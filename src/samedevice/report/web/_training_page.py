"""A plan for training as a page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path

from samedevice.messages import Language, Phrase
from samedevice.planner import RESERVE, describe_moment
from samedevice.preflight import TrainingPlan
from samedevice.preflight.needs import PARTS
from samedevice.report._render import render
from samedevice.report._words import harmless
from samedevice.report.plan import training_rows
from samedevice.report.web._page import Lane, Part, amount, facts, page, percent

_WORDS = ("page.machine", "page.by-formula", "page.by-step")
_KINDS = {"gathered": "cache", "buckets": "kept"}
"""Parts that have the color of another kind."""


def training_page(
    plan: TrainingPlan, files: Sequence[Path], folder: Path | None, language: Language, *, version: str
) -> str:
    """What a GPU holds at the worst moment, its moments by the formula and by the step that was taken."""
    gpu, count = plan.machine.gpus[0], len(plan.machine.gpus)
    title = Phrase("page.plan-title", model=harmless(plan.shape.name), machine=plan.machine.spec)
    unproved = "page.by-formula-alone" if plan.measured is None else "page.fails"
    return page(
        "training.html",
        language,
        _WORDS,
        version,
        title=render(title, language),
        state=render(Phrase("page.proved" if plan.proved else unproved), language),
        good=plan.proved,
        lane=Lane(
            "cuda:0" if count == 1 else f"cuda:0-{count - 1}",
            gpu.name,
            amount(gpu.total_memory),
            tuple(_parts(plan, language)),
            moments=tuple(_moments(plan, language)),
        ),
        measured=tuple(_measured(plan, language)),
        rows=facts(training_rows(plan, files, folder), language),
    )


def _parts(plan: TrainingPlan, language: Language) -> Iterator[Part]:
    """What adds up to the worst moment, and what is left."""
    total, worst = plan.machine.gpus[0].total_memory, plan.estimate.worst
    sizes = [(_KINDS.get(part, part), Phrase(key), getattr(worst, part)) for part, key in PARTS.items()]
    sizes.append(("free", Phrase("place.free"), plan.limit - worst.total))
    sizes.append(("reserve", Phrase("page.reserve"), RESERVE))
    for kind, label, size in sizes:
        if size:
            yield Part(kind, render(label, language), amount(size), percent(size, total))


def _moments(plan: TrainingPlan, language: Language) -> Iterator[Part]:
    """Of several moments of one kind the one with the most memory."""
    for _, alike in groupby(plan.estimate.moments, key=lambda moment: moment.name):
        most = max(alike, key=lambda moment: moment.total)
        yield _bar(plan, describe_moment(most), most.total, language)


def _measured(plan: TrainingPlan, language: Language) -> Iterator[Part]:
    if plan.measured is None:
        return
    for label, size in (
        (Phrase("page.step-built"), plan.measured.built),
        (Phrase("page.step-forward"), plan.measured.forward),
        (Phrase("page.step-backward"), plan.measured.backward),
        (Phrase("page.step-optimizer"), plan.measured.step),
    ):
        yield _bar(plan, label, size, language)


def _bar(plan: TrainingPlan, label: Phrase, size: int, language: Language) -> Part:
    total = plan.machine.gpus[0].total_memory
    return Part("peak", render(label, language), amount(size), min(percent(size, total), 100.0))
