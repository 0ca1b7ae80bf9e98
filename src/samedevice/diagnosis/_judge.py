"""One event to one finding: its code, its headline, and the cause as far as the evidence goes."""

from __future__ import annotations

import re

from samedevice.diagnosis._causes import find_cause
from samedevice.diagnosis._codes import code_for
from samedevice.events import Event, EventKind
from samedevice.findings import Finding
from samedevice.messages import Language, enumerate_words, say, short_operator


def judge(event: Event, count: int = 1, language: Language = "en") -> Finding:
    """The finding that `event` amounts to, seen `count` times, with its texts in `language`."""
    row = code_for(event.kind)
    verdict = find_cause(event, language)
    title = say(
        f"title.{row.name}",
        language,
        op=short_operator(event.op),
        devices=enumerate_words(_devices(event), language),
        amount=_amount(event),
        names=enumerate_words(_unmaterialized(event), language),
    )
    return Finding(
        code=row.code,
        cause=verdict.cause,
        confidence=verdict.confidence,
        title=title,
        message=event.message,
        op=event.op,
        at=event.at,
        user_at=event.user_at,
        module=event.module,
        operands=event.operands,
        candidates=verdict.candidates,
        count=count,
        fixes=verdict.fixes,
        memory=event.memory,
        notes=event.notes,
    )


def _devices(event: Event) -> list[str]:
    if event.kind is EventKind.OUT_OF_MEMORY and (named := re.search(r"\bGPU (\d+)\b", event.message)):
        return [f"cuda:{named[1]}"]
    return list(dict.fromkeys(operand.device for operand in event.operands)) or ["cuda"]


def _amount(event: Event) -> str:
    """What an allocation asked for, in the words of its message."""
    asked = re.search(r"Tried to allocate ([\d.]+ \w+)", event.message)
    return asked[1] if asked else short_operator(event.op)


def _unmaterialized(event: Event) -> list[str]:
    return [operand.parameter or operand.name for operand in event.operands if operand.device == "meta"] or ["?"]
