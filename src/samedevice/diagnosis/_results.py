"""Where the results of refused statements were needed, as the statements after them tell.

A run goes on after a refusal, with the result on one of the devices. Where that result then meets something
on the other one, the statement itself should have worked there: what has to follow is the operand that is
not, and then both statements are right.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from samedevice.events import Event, EventKind, Operand


def with_results(events: Sequence[Event]) -> list[Event]:
    """The events, each with the device on which its result was needed, where a later one tells it."""
    return [_with_result(event, events[number + 1 :]) for number, event in enumerate(events)]


def _with_result(event: Event, later: Sequence[Event]) -> Event:
    """The very event where nothing tells more of it."""
    if event.kind not in (EventKind.MISMATCH, EventKind.UNCHECKED) or event.needed_on is not None:
        return event
    needed_on = _needed_on(event, later)
    return event if needed_on is None else replace(event, needed_on=needed_on)


def _needed_on(event: Event, later: Iterable[Event]) -> str | None:
    devices = {each.device for each in event.operands}
    found = {
        met.device
        for other in later
        for result in other.operands
        if result.role is None and result.device in devices and made_by(event, result)
        for met in other.operands
        if met.device != result.device and _has_a_place(other, met) and not _met_before(event, met)
    }
    return found.pop() if len(found) == 1 and found <= devices else None


def _met_before(event: Event, operand: Operand) -> bool:
    """Whether it is an operand of the refused statement, met once more, as `d` in `h - (h @ d) * d`, or
    another part of the same weight: `h * scale + shift` of one table.
    """
    newest = operand.decision
    return any(
        (operand.local is not None and (each.local, each.decision) == (operand.local, newest))
        or (_of_one_weight(each, operand) and each.device == operand.device)
        for each in event.operands
    )


def _of_one_weight(one: Operand, other: Operand) -> bool:
    """Whether both were computed from the same table of a module's own, which is no layer's weight."""
    first, second = one.decision, other.decision
    if first is None or second is None or first.order != second.order or not first.order:
        return False
    table = (first.name or "weight").rpartition(".")[2] not in ("weight", "bias")
    return table and first.kind == "placed" and first.inherited and second.inherited and not one.role


def _has_a_place(event: Event, operand: Operand) -> bool:
    """Whether it is a weight, what a layer computed, or what was made beside another tensor to be written
    into: kept state may be in the wrong place itself.
    """
    newest = operand.decision
    if operand.role == "parameter" or newest is None:
        return operand.role == "parameter"
    written = operand.name == "self" and event.op.partition(".")[2].partition(".")[0].endswith("_")
    return newest.kind in ("placed", "hook") or (newest.source == "tensor" and written)


def made_by(event: Event, operand: Operand) -> bool:
    """Whether an operand is what the statement of an event computed."""
    made, at = operand.made, event.at
    if made is None or operand.moved is not None or made.file != at.file:
        return False
    if (made.line, made.function) == (at.line, at.function):
        return not at.call or not made.call or at.call in made.call
    # what was computed from its result in the same function
    parts = [each.made for each in operand.ingredients if each.device == operand.device]
    return any(each is not None and (each.file, each.line) == (at.file, at.line) for each in parts)
