"""One event to one finding: its code, its headline, its cause as far as the evidence goes, and what repairs
it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from samedevice.device_rules import of_another_library
from samedevice.diagnosis._codes import code_for
from samedevice.diagnosis._scene import Scene
from samedevice.diagnosis._weigh import UNDETERMINED, Verdict, decide, weigh_event
from samedevice.diagnosis.fixes import fixes_for
from samedevice.diagnosis.rules import rule_named
from samedevice.events import Event, EventKind
from samedevice.findings import Finding
from samedevice.messages import Language, enumerate_words, say, short_operator


def judge(event: Event, count: int = 1, language: Language = "en", ranks: Sequence[int] = ()) -> Finding:
    """The finding that `event` amounts to, seen `count` times, on `ranks` of a launch, with its texts in
    `language`.
    """
    row = code_for(event.kind)
    scene = Scene(event, launched=bool(ranks))
    verdict = decide(weigh_event(scene))
    foreign = row.kind is EventKind.UNCHECKED and of_another_library(event.op)
    title = say(
        "title.library-operator" if foreign else f"title.{row.name}",
        language,
        op=short_operator(event.op),
        devices=enumerate_words(_devices(event), language),
        home=scene.group.device if scene.group is not None else "",
        amount=_amount(event),
        names=enumerate_words(_unmaterialized(event) or [say("unnamed", language)], language),
    )
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
        operands=event.operands,
        candidates=tuple(each.rule.name for each in verdict.candidates),
        count=count,
        fixes=fixes_for(scene, verdict, language),
        memory=event.memory,
        notes=event.notes,
        guilty=verdict.guilty,
        reasons=tuple(reason.text(language) for reason in verdict.reasons),
        cure=cure_of(verdict, event.kind, language),
        versions=event.versions,
        ranks=tuple(ranks),
    )


def cure_of(verdict: Verdict, kind: EventKind | None, language: Language) -> str | None:
    """What to do about it in general; for an unknown cause of a mismatch, what to record next."""
    own = (EventKind.COLLECTIVE, EventKind.SHARED_GPU)
    if kind is EventKind.DUPLICATE_GPU or (kind in own and verdict.cause == UNDETERMINED):
        happened = code_for(kind).cure
        return happened.zh if language == "zh" else happened.en
    if verdict.cause == UNDETERMINED and kind not in (EventKind.MISMATCH, EventKind.UNMATERIALIZED, None):
        return None
    key = "record-next" if verdict.cause == UNDETERMINED and kind is not None else None
    if key is not None:
        return say(key, language)
    cure = rule_named(verdict.cause).cure
    return cure.zh if language == "zh" else cure.en


def _devices(event: Event) -> list[str]:
    if event.kind is EventKind.OUT_OF_MEMORY and (named := re.search(r"\bGPU (\d+)\b", event.message)):
        return [f"cuda:{named[1]}"]
    if event.kind is EventKind.SHARED_GPU:
        return list(event.memory)
    operands = (
        event.operands[:-1] if event.kind is EventKind.COLLECTIVE else event.operands
    )  # the last one is the group
    return list(dict.fromkeys(operand.device for operand in operands)) or ["cuda"]


def _amount(event: Event) -> str:
    """What an allocation asked for, in the words of its message."""
    asked = re.search(r"Tried to allocate ([\d.]+ \w+)", event.message)
    return asked[1] if asked else short_operator(event.op)


def _unmaterialized(event: Event) -> list[str]:
    return [operand.parameter or operand.name for operand in event.operands if operand.device == "meta"]
