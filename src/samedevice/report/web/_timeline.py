"""A run over time for a page: memory of each GPU as a picture, peaks by phase, transfers, layers.

The picture is SVG with numbers alone in it; whatever the program named is text of the page.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from samedevice.messages import Bytes, Language, Phrase
from samedevice.report._render import render
from samedevice.report._words import harmless
from samedevice.report.terminal import place_text
from samedevice.report.web._page import Part, amount, percent
from samedevice.timeline import KINDS, Sample, Timeline

_WIDTH, _HEIGHT = 1000, 200
_LINE = 6
"""Height of the strip of phases below the curve."""
_SHOWN = 200
"""Rows of a table, before the rest is counted."""
_MODELS = 12
"""So many models are shown, each with all its layers."""
_PHASES = ("forward", "backward", "optimizer")


@dataclass(frozen=True, slots=True)
class Chart:
    """Memory of one GPU over time."""

    device: str
    title: str
    """What a screen reader says of it."""
    areas: tuple[tuple[str, str], ...]
    """Kind and path, the lowest first."""
    reserved: str
    """A line: what the allocator got from the GPU."""
    phases: tuple[tuple[str, float, float], ...]
    """Name, left and width in units of the picture."""
    top: str
    """What the upper edge stands for."""
    parts: tuple[Part, ...]
    """Bytes of each kind at the peak."""
    peaks: tuple[tuple[str, str], ...]
    """Each phase with the most that was held in it."""


@dataclass(frozen=True, slots=True)
class Flow:
    """Bytes from one device to another."""

    ends: str
    amount: str
    count: int
    place: str
    code: str


@dataclass(frozen=True, slots=True)
class Model:
    """The layers of one model."""

    name: str
    rows: tuple[tuple[str, str, str, str], ...]
    """Module, class, device, bytes."""


@dataclass(frozen=True, slots=True)
class Story:
    """Everything of a run that has a time."""

    charts: tuple[Chart, ...]
    flows: tuple[Flow, ...]
    models: tuple[Model, ...]
    said: str
    """What the axis is."""
    left_out: str
    """Transfers that are not shown, as a sentence; empty where all are."""
    models_left_out: str
    """Models that are not shown, likewise."""


def story(timeline: Timeline, language: Language) -> Story:
    """A run over time, ready for its page."""
    flows = timeline.transfers[:_SHOWN]
    more, models = len(timeline.transfers) - len(flows), len(timeline.layers) - _MODELS
    return Story(
        tuple(
            _chart(device, samples, timeline, language)
            for device, samples in timeline.memory.items()
            if any(sum(sample.held) for sample in samples)
        ),
        tuple(
            Flow(
                f"{each.source} → {each.target}",
                str(Bytes(each.nbytes)),
                each.count,
                "" if each.place is None else harmless(place_text(each.place)),
                "" if each.place is None else harmless(each.place.code),
            )
            for each in flows
        ),
        tuple(
            Model(
                harmless(name),
                tuple(
                    (harmless(row.module), harmless(row.kind), row.device, str(Bytes(row.nbytes)))
                    for row in rows
                ),
            )
            for name, rows in list(timeline.layers.items())[:_MODELS]
        ),
        render(Phrase("page.axis", count=f"{timeline.operators:,}"), language),
        render(Phrase("page.more-transfers", count=more), language) if more else "",
        render(Phrase("page.more-models", count=models), language) if models > 0 else "",
    )


def _chart(device: str, samples: Sequence[Sample], timeline: Timeline, language: Language) -> Chart:
    top = max(max(sum(sample.held), sample.reserved) for sample in samples)
    whole = max(timeline.operators, 1)
    peak = max(samples, key=lambda sample: sum(sample.held))
    xs = [_WIDTH * sample.at / whole for sample in samples]
    stacked = [list(accumulate(sample.held)) for sample in samples]
    floors = [[0, *each] for each in stacked]
    areas = []
    for number, kind in enumerate(KINDS):
        if any(sample.held[number] for sample in samples):
            upper = _steps(xs, [each[number] for each in stacked], top)
            lower = _steps(xs, [each[number] for each in floors], top)
            areas.append((kind, f"M{' L'.join([*upper, *reversed(lower)])} Z"))
    line = " L".join(_steps(xs, [sample.reserved for sample in samples], top))
    parts = tuple(
        Part(kind, render(_kind(kind), language), amount(size), percent(size, sum(peak.held)))
        for kind, size in zip(KINDS, peak.held, strict=True)
        if size
    )
    total = amount(sum(peak.held))
    said = ", ".join(f"{part.label} {part.amount}" for part in parts)
    return Chart(
        device,
        f"{device}: {total} ({said})",
        tuple(areas),
        f"M{line}",
        tuple(
            (phase.name, round(_WIDTH * phase.start / whole, 1), max(round(width, 1), 1.0))
            for phase in timeline.phases
            if (width := _WIDTH * (phase.end - phase.start) / whole) >= 0
        ),
        amount(top),
        parts,
        _peaks(samples, timeline, language),
    )


def _steps(xs: Sequence[float], values: Sequence[int], top: int) -> list[str]:
    """Points of a curve that keeps its value until the next."""
    points = []
    for number, (x, value) in enumerate(zip(xs, values, strict=True)):
        y = _HEIGHT * (1 - value / top)
        if number:
            points.append(f"{x:.1f} {_HEIGHT * (1 - values[number - 1] / top):.1f}")
        points.append(f"{x:.1f} {y:.1f}")
    return points


def _peaks(samples: Sequence[Sample], timeline: Timeline, language: Language) -> tuple[tuple[str, str], ...]:
    """The most that was held in each kind of phase, and outside of all."""
    found: Counter[str] = Counter()
    phases = iter(timeline.phases)
    phase = next(phases, None)
    for sample in samples:
        while phase is not None and phase.end < sample.at:
            phase = next(phases, None)
        inside = phase is not None and phase.start <= sample.at
        name = phase.name if phase is not None and inside else "other"
        found[name] = max(found[name], sum(sample.held))
    return tuple(
        (render(_phase(name), language), amount(found[name])) for name in (*_PHASES, "other") if name in found
    )


def _kind(kind: str) -> Phrase:
    names = {
        "weights": Phrase("page.kind-weights"),
        "gradients": Phrase("page.kind-gradients"),
        "optimizer": Phrase("page.kind-optimizer"),
        "activations": Phrase("page.kind-activations"),
        "kept": Phrase("page.kind-kept"),
        "working": Phrase("page.kind-working"),
    }
    return names[kind]


def _phase(name: str) -> Phrase:
    names = {
        "forward": Phrase("page.phase-forward"),
        "backward": Phrase("page.phase-backward"),
        "optimizer": Phrase("page.phase-optimizer"),
        "other": Phrase("page.phase-other"),
    }
    return names[name]
