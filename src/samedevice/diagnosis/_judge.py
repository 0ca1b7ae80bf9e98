"""One event to one finding: its code, its headline, its cause, and what repairs it.

The cause goes as far as the evidence.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import dropwhile

from samedevice.device_rules import of_another_library
from samedevice.diagnosis._codes import code_for
from samedevice.diagnosis._cure import cure_of
from samedevice.diagnosis._failure import Failure
from samedevice.diagnosis._weigh import LIKELY_OF_EVENT, Verdict, decide, weigh_event
from samedevice.diagnosis.fixes import changes_line, fixes_for, with_others
from samedevice.diagnosis.rules import rule_named
from samedevice.events import Decision, Event, EventKind, Operand, Place, on_accelerator
from samedevice.findings import Finding, Fix
from samedevice.messages import Phrase, Several, Value, short_operator
from samedevice.provenance import installed_path

_LONGEST = 60
"""Characters of a spelling that is still read at a glance."""


def verdict_of(event: Event) -> Verdict:
    """The cause and the operand in the wrong place, without what repairs it."""
    failure = Failure(event)
    return _toward_result(failure, _verdict(failure))


def _verdict(failure: Failure) -> Verdict:
    return decide(weigh_event(failure), LIKELY_OF_EVENT)


def judge(
    event: Event, count: int = 1, ranks: Sequence[int] = (), verdict: Verdict | None = None
) -> Finding[Phrase]:
    """The finding that `event` amounts to, seen `count` times, on `ranks` of a launch.

    `verdict` is what `verdict_of` said of it, where it was asked.
    """
    row = code_for(event.kind)
    failure = Failure(event, launched=bool(ranks))
    verdict = verdict or _toward_result(failure, _verdict(failure))
    foreign = row.kind is EventKind.UNCHECKED and of_another_library(event.op)
    values: dict[str, Value] = {
        "op": short_operator(event.op),
        "devices": Several(_devices(event)),
        "home": failure.group.device if failure.group is not None else "",
        "amount": _amount(event),
        "operand": Several(tuple(failure.written(each) for each in failure.read_on_host)),
        "names": Several(_unmaterialized(failure) or (Phrase("unnamed"),)),
    }
    title = row.phrase("headline", **values)
    if foreign:
        title = Phrase("title.library-operator", **values)
    elif failure.read_on_host:
        title = Phrase("title.read-on-host", **values)
    return Finding(
        code=row.code,
        cause=verdict.cause,
        confidence=verdict.confidence,
        title=title,
        message=event.message or None,
        op=event.op,
        at=event.at,
        user_at=event.user_at,
        module=event.module,
        operands=tuple(_spelled(failure, each) for each in event.operands),
        candidates=tuple(each.rule.name for each in verdict.candidates),
        count=count,
        fixes=_fixes(failure, verdict),
        memory=event.memory,
        notes=event.notes,
        guilty=verdict.guilty,
        reasons=verdict.reasons,
        cure=_cure(failure, verdict),
        versions=event.versions,
        ranks=tuple(ranks),
        stack=_from_project(event.stack),
        silent_result=event.silent_result,
    )


def _toward_result(failure: Failure, verdict: Verdict) -> Verdict:
    """The verdict about the operand that has to follow, where the result of two that layers computed was
    needed where the blamed one is.
    """
    needed, operands = failure.event.needed_on, failure.event.operands
    blamed = next((each for each in operands if each.name == verdict.guilty), None)
    away = [each for each in operands if each.device != needed and each.dtype]
    if needed is None or blamed is None or blamed.device != needed or len(away) != 1:
        return verdict
    if any(each.role or not on_accelerator(each.device) for each in (blamed, *away)):
        return verdict
    return replace(verdict, guilty=away[0].name)


def _fixes(failure: Failure, verdict: Verdict) -> tuple[Fix[Phrase], ...]:
    """The fixes of an event; the first mends the other expressions of its statement, too, and has no change
    for those that meet the same tensor, where it changes what was decided about that.
    """
    fixes = fixes_for(failure, verdict)
    decision = _decision(failure, verdict)
    at = None if decision is None else decision.at
    others = []
    for event in failure.event.also:
        other = Failure(event)
        theirs = _verdict(other)
        newest = _decision(other, theirs)
        same = decision is not None and newest is not None and decision.order == newest.order != 0
        if not (same and at is not None and fixes and changes_line(fixes[0], at)):
            others.append(fixes_for(other, theirs))
    return tuple(with_others(fixes, others))


def _decision(failure: Failure, verdict: Verdict) -> Decision | None:
    blamed = next((each for each in failure.event.operands if each.name == verdict.guilty), None)
    return None if blamed is None else blamed.decision


def _spelled(failure: Failure, operand: Operand) -> Operand:
    """With the failing statement's own words for it, as far as the source tells."""
    text = failure.expression(operand)
    return operand if text is None or len(text) > _LONGEST else replace(operand, local=text)


def _from_project(stack: Sequence[Place]) -> tuple[Place, ...]:
    """The frames without those of the programs that started it: pytest's, a launcher's."""
    begun = dropwhile(lambda place: installed_path(place.file) is not None, stack)
    return tuple(begun) or tuple(stack)


def _cure(failure: Failure, verdict: Verdict) -> Phrase | None:
    """What to do about an event in general."""
    for operand in failure.read_on_host:
        rule = rule_named("extra-input-on-wrong-device")
        return rule.phrase("stays-on-host", operand=failure.written(operand))
    rule = rule_named(verdict.cause)
    if "cure-of-own" in rule.sentences and failure.by_user(failure.event.at):
        return rule.phrase("cure-of-own")
    return cure_of(verdict, failure.event.kind)


def _devices(event: Event) -> tuple[str, ...]:
    if event.kind is EventKind.OUT_OF_MEMORY and (named := re.search(r"\bGPU (\d+)\b", event.message)):
        return (f"cuda:{named[1]}",)
    if event.kind is EventKind.SHARED_GPU:
        return tuple(event.memory)
    operands = (
        event.operands[:-1] if event.kind is EventKind.COLLECTIVE else event.operands
    )  # the last one is the group
    return tuple(dict.fromkeys(operand.device for operand in operands)) or ("cuda",)


def _amount(event: Event) -> str:
    """What an allocation asked for, in the words of its message."""
    asked = re.search(r"Tried to allocate ([\d.]+ \w+)", event.message)
    return asked[1] if asked else short_operator(event.op)


def _unmaterialized(failure: Failure) -> tuple[str, ...]:
    operands = failure.event.operands
    return tuple(each.parameter or failure.written(each) for each in operands if each.device == "meta")
