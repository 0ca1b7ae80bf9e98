"""A run as a trace for `chrome://tracing` and https://ui.perfetto.dev: JSON in Chrome's trace event format.

One microsecond of the trace is one operator: a virtual GPU has no speed. Each device is a process of the
trace, with operators, copies that come in, and a counter of memory by kind.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from samedevice.timeline import KINDS, Timeline

_PROGRAM = 0
_OPERATORS, _COPIES = 1, 2


def trace_document(timeline: Timeline, *, program: str, version: str) -> dict[str, Any]:
    """The trace as a JSON object."""
    devices = [*timeline.memory, *sorted({each.device for each in timeline.work} - {*timeline.memory})]
    numbers = {device: number for number, device in enumerate(devices, start=1)}
    return {
        "traceEvents": [
            *_names(numbers),
            *_phases(timeline),
            *_work(timeline, numbers),
            *_moves(timeline, numbers),
            *_memory(timeline, numbers),
        ],
        "displayTimeUnit": "ns",
        "otherData": {
            "program": program,
            "made_by": f"samedevice {version}",
            "time": "1 us is 1 operator",
            "operators": timeline.operators,
            "operators_shown": len(timeline.work),
        },
    }


def _names(numbers: dict[str, int]) -> Iterator[dict[str, Any]]:
    yield _name("process_name", _PROGRAM, 0, "program")
    yield _name("thread_name", _PROGRAM, 1, "phases")
    for device, number in numbers.items():
        yield _name("process_name", number, 0, device)
        yield {"ph": "M", "name": "process_sort_index", "pid": number, "args": {"sort_index": number}}
        yield _name("thread_name", number, _OPERATORS, "operators")
        yield _name("thread_name", number, _COPIES, "copies from other devices")


def _name(kind: str, process: int, thread: int, text: str) -> dict[str, Any]:
    return {"ph": "M", "name": kind, "pid": process, "tid": thread, "args": {"name": text}}


def _span(name: str, process: int, thread: int, start: int, length: int, **args: Any) -> dict[str, Any]:
    return {
        "ph": "X", "name": name, "pid": process, "tid": thread, "ts": start, "dur": length, "args": args,
    }  # fmt: skip


def _phases(timeline: Timeline) -> Iterator[dict[str, Any]]:
    for phase in timeline.phases:
        name = f"{phase.name} {phase.what}".strip()
        yield _span(name, _PROGRAM, 1, phase.start, max(phase.end - phase.start, 1))


def _work(timeline: Timeline, numbers: dict[str, int]) -> Iterator[dict[str, Any]]:
    for each in timeline.work:
        yield _span(each.name, numbers[each.device], _OPERATORS, each.at - 1, 1)


def _moves(timeline: Timeline, numbers: dict[str, int]) -> Iterator[dict[str, Any]]:
    for each in timeline.moves:
        if (process := numbers.get(each.target)) is not None:
            name = f"{each.source} to {each.target}"
            yield _span(name, process, _COPIES, each.at - 1, 1, bytes=each.nbytes)


def _memory(timeline: Timeline, numbers: dict[str, int]) -> Iterator[dict[str, Any]]:
    for device, samples in timeline.memory.items():
        for sample in samples:
            counter = {"ph": "C", "pid": numbers[device], "ts": sample.at}
            held = dict(zip(KINDS, sample.held, strict=True))
            yield {**counter, "name": "memory", "args": held}
            yield {**counter, "name": "reserved", "args": {"reserved": sample.reserved}}
