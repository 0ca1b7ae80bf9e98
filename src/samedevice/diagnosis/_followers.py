"""Statements that were refused only because the run went on after an earlier refusal.

The result of a refused statement is on one of the devices while the run goes on. Where it is on that of the
operand that has to follow, what it meets next is no mistake of its own: the first one's repair ends it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from samedevice.diagnosis._results import made_by
from samedevice.diagnosis._weigh import Verdict
from samedevice.events import Event, EventKind

_REFUSED = (EventKind.MISMATCH, EventKind.UNCHECKED)


def without_followers(events: Sequence[Event], verdict_of: Callable[[Event], Verdict]) -> list[Event]:
    """The events without those that an earlier one brought about, as its verdict says."""
    return [
        event
        for number, event in enumerate(events)
        if event.kind not in _REFUSED
        or not any(_follows(event, other, verdict_of) for other in events[:number] if other.kind in _REFUSED)
    ]


def _follows(event: Event, earlier: Event, verdict_of: Callable[[Event], Verdict]) -> bool:
    tensors = [each for each in event.operands if each.dtype]
    results = [each for each in tensors if each.role is None and made_by(earlier, each)]
    there = {each.device for each in results}
    elsewhere = {each.device for each in tensors if each not in results}
    devices = {each.device for each in earlier.operands}
    if len(there) != 1 or len(elsewhere) != 1 or there == elsewhere or not elsewhere <= devices:
        return False
    guilty = verdict_of(earlier).guilty
    return there == {each.device for each in earlier.operands if each.name == guilty}
