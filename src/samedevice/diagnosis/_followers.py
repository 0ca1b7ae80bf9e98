"""Statements that were refused only because the run went on after an earlier refusal.

The result of a refused statement is on one of the devices while the run goes on. Where it is on that of the
operand that has to follow, what it meets next is no mistake of its own: the first one's repair ends it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from samedevice.diagnosis._judge import verdict_of
from samedevice.diagnosis._results import made_by
from samedevice.events import Event, EventKind

_REFUSED = (EventKind.MISMATCH, EventKind.UNCHECKED)


def without_followers(events: Sequence[Event]) -> list[Event]:
    """The events without those that an earlier one brought about."""
    found: dict[int, str | None] = {}

    def guilty(number: int) -> str | None:
        if number not in found:
            found[number] = verdict_of(events[number]).guilty
        return found[number]

    return [
        event
        for number, event in enumerate(events)
        if event.kind not in _REFUSED
        or not any(
            _follows(event, other, partial(guilty, place))
            for place, other in enumerate(events[:number])
            if other.kind in _REFUSED
        )
    ]


def _follows(event: Event, earlier: Event, guilty: Callable[[], str | None]) -> bool:
    tensors = [each for each in event.operands if each.dtype]
    results = [each for each in tensors if each.role is None and made_by(earlier, each)]
    there = {each.device for each in results}
    elsewhere = {each.device for each in tensors if each not in results}
    devices = {each.device for each in earlier.operands}
    if len(there) != 1 or len(elsewhere) != 1 or there == elsewhere or not elsewhere <= devices:
        return False
    blamed = guilty()
    return there == {each.device for each in earlier.operands if each.name == blamed}
