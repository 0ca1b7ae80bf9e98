"""A run as a page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from samedevice.events import DeviceMemory
from samedevice.findings import Finding, Status
from samedevice.messages import Language, Phrase
from samedevice.report._render import render
from samedevice.report._words import harmless
from samedevice.report.terminal import STATUSES, machine_text
from samedevice.report.web._page import Lane, Part, amount, cards, page, percent
from samedevice.report.web._timeline import story
from samedevice.timeline import Timeline

_WORDS = (
    "page.machine",
    "page.processes",
    "page.notes",
    "page.memory-over-time",
    "page.reserved",
    "page.phase-forward",
    "page.phase-backward",
    "page.phase-optimizer",
    "page.at-peak",
    "page.peaks-of-phases",
    "page.transfers",
    "page.way",
    "page.bytes",
    "page.times",
    "page.statement",
    "page.layers",
    "page.module",
    "page.class",
)


def run_page(
    findings: Sequence[Finding[Phrase]],
    *,
    program: str,
    machine: Mapping[str, Any],
    memory: Mapping[str, DeviceMemory],
    ranks: Mapping[str, DeviceMemory],
    status: Status,
    notices: Sequence[str],
    timeline: Timeline | None = None,
    language: Language,
    version: str,
) -> str:
    """The run: how the script ended, peaks of each GPU, and every finding.

    `ranks` are the peaks of each process, where there was more than one; `timeline` is there for one process.
    """
    count = len(findings)
    spec = harmless(machine_text(machine))
    key = {0: "page.found-none", 1: "page.found-one"}.get(count, "page.found-many")
    names = {f"cuda:{gpu['index']}": str(gpu["name"]) for gpu in machine.get("gpus", ())}
    return page(
        "run.html",
        language,
        _WORDS,
        version,
        title=render(Phrase("page.run-title", program=harmless(program), machine=spec), language),
        state=render(Phrase(key, count=count), language),
        good=not count and status == "completed",
        ending=render(Phrase(STATUSES[status]), language),
        lanes=[_lane(device, names.get(device, ""), held, language) for device, held in memory.items()],
        ranks=[_lane(harmless(who), "", held, language) for who, held in ranks.items()],
        notices=notices,
        story=None if timeline is None or not timeline.operators else story(timeline, language),
        cards=cards(findings, language),
    )


def _lane(device: str, gpu: str, held: DeviceMemory, language: Language) -> Lane:
    """The allocated peak, and what the caching allocator reserved beyond it at its own peak."""
    whole = max(held.total, held.peak_reserved, held.peak_allocated)
    beyond = max(held.peak_reserved - held.peak_allocated, 0)
    return Lane(
        device,
        gpu,
        amount(held.total),
        (
            Part(
                "weights",
                render(Phrase("memory.allocated"), language),
                amount(held.peak_allocated),
                percent(held.peak_allocated, whole),
            ),
            Part(
                "working",
                render(Phrase("memory.reserved"), language),
                amount(held.peak_reserved),
                percent(beyond, whole),
            ),
        ),
        percent(held.total, whole) if whole > held.total else None,
    )
