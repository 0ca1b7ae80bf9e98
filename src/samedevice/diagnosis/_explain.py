"""From a pasted text to findings: one for each error that the text shows, the last one first."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from dataclasses import replace

from samedevice.diagnosis._ask import ask_of
from samedevice.diagnosis._change import advice_of
from samedevice.diagnosis._cure import cure_of
from samedevice.diagnosis._elsewhere import (
    cure_elsewhere,
    memory_notes,
    title_elsewhere,
    verdict_elsewhere,
    with_topic,
)
from samedevice.diagnosis._printed import read_printed
from samedevice.diagnosis._rule import Rule, device_pattern
from samedevice.diagnosis._source import Source, origins_of, read_source
from samedevice.diagnosis._weigh import UNDETERMINED, Verdict, Weighed, decide, weigh_report
from samedevice.diagnosis.fixes import releases_for
from samedevice.diagnosis.paste import Frame, Report, own_finding, read_paste
from samedevice.diagnosis.rules import find_rule, rule_named
from samedevice.diagnosis.story import nothing_moved, read_story
from samedevice.events import EventKind, Operand, Place, Written
from samedevice.findings import Confidence, Finding
from samedevice.findings import Verdict as VerdictName
from samedevice.messages import Phrase, Several, Value
from samedevice.provenance.syntax import parsed
from samedevice.provenance.written import handed_over

_HAPPENED = {
    "same-device": "SD101",
    "argument-device": "SD101",
    "index-device": "SD101",
    "mask-device": "SD101",
    "cat-device-old": "SD101",
    "embedding-device-old": "SD101",
    "input-weight-type": "SD101",
    "type-combination": "SD101",
    "metric-device": "SD101",
    "optimizer-groups": "SD101",
    "meta-copy": "SD102",
    "meta-device": "SD102",
    "meta-value": "SD102",
    "generator-device": "SD103",
    "rng-state": "SD101",
    "out-of-memory": "SD104",
    "illegal-access": "SD105",
    "duplicate-gpu": "SD107",
    "collective-device": "SD109",
    "graph-device": "SD101",
    "needs-gpu": "SD101",
    "gradient-device": "SD101",
    "module-apart": "SD101",
    "ddp-module": "SD101",
    "needs-host": "SD101",
    "backend-device": "SD101",
    "pin-device": "SD101",
}
"""What happened, where the message says so; else the code of a finding is that of its cause."""
_HINT = 2.0
"""The least weight of a printed line that is named beside what a text states."""
_REASON = 2.8
"""The least weight of one reason that is more than a hint."""
_NAMES = {"generator-device": ("self", "generator"), "graph-device": ("graph",)}
"""What the last tensors are of messages that name none."""
_LISTS = ("tensors",)
"""Arguments that are lists: which of their tensors is meant, the message does not say."""
_HANDED_OVER = {"numpy-conversion": 0, "data-parallel-module": 1}
"""Messages about what the failing call of a program is given, or what it calls, and which of their devices it
is on.
"""
_OTHER_SIDE = {
    "module-left-on-other-device": ("mat1", "index", "indices", "input"),
    "input-not-on-embedding-device": ("weight", "mat2", "bias"),
}
"""By the cause, arguments that are in their place: what meets a weight that was left, or the weight."""
_OF_META = ("meta-copy", "meta-device", "meta-value")
_LEFT_ON_META = (
    "meta-tensor-not-materialized",
    "unmaterialized-weights",
    "offload-hook-bypassed",
    "dispatched-model-moved",
    "library-version-regression",
)
"""What may leave a weight on meta, the only causes of such a message."""
_REASONS = 2
_SEEN_ABOVE = frozenset(("because.message", "because.devices", "because.frame"))
"""Reasons that repeat the message or the place."""


def explain_text(text: str, source: Source | None = None) -> list[Finding[Phrase]]:
    """The findings of a pasted text; a single `undetermined` one when no error is recognised in it.

    With `source`, the source of the failing function is evidence where it is at hand.
    """
    found = [explain_report(report, source) for report in read_paste(text)]
    return [replace(each, message=_as_printed(each.message, text)) for each in found]


def _as_printed(message: str | None, text: str) -> str | None:
    """A message as its text has it: short forms were written out to read them ("can't", "cannot")."""
    if message is None or "cannot" not in message:
        return message
    printed = re.search(re.escape(message).replace("cannot", r"can(?:'|no)t"), text)
    return message if printed is None else printed.group()


def explain_report(report: Report, source: Source | None = None) -> Finding[Phrase]:
    """The finding that one report amounts to."""
    report = with_topic(report)
    origins = origins_of(report, source)
    verdict, advice = _judged(report, origins)
    rule = rule_named(verdict.cause)
    notes = []
    if report.ranks:
        notes.append(Phrase("note.ranks", ranks=", ".join(map(str, report.ranks))))
    notes += [Phrase("note.earlier", kind=kind) for kind in report.earlier[:3]]
    user = next((frame for frame in reversed(report.frames) if frame.by_user), None)
    amounts = report.memory.amounts if report.memory is not None else {}
    return Finding(
        code=_code(report, rule),
        cause=verdict.cause,
        confidence=verdict.confidence,
        title=_title(report, verdict),
        message=report.message,
        op=report.op,
        at=_place(report.at),
        user_at=_place(user),
        module=None,
        operands=_operands(report),
        candidates=tuple(each.rule.name for each in verdict.candidates),
        fixes=releases_for(report, verdict) if report.topic is None else (),
        notes=(*notes, *memory_notes(amounts)),
        guilty=verdict.guilty or _named(report, verdict) or _handed_over(report),
        reasons=_telling(verdict),
        cure=(None if report.topic else advice_of(report)) or advice or _cure(report, verdict),
        exception=report.exception,
        kind=report.kind,
        stack=tuple(place for frame in report.frames if (place := _place(frame)) is not None),
        versions=dict(report.versions),
        verdict=_about(report, verdict),
        topic=None if report.topic == "something" else report.topic,
        amounts=amounts,
        ask=ask_of(report, verdict),
        written=origins,
    )


def _named(report: Report, verdict: Verdict) -> str | None:
    """The operand that the message names, where a cause is told that may lie in it."""
    other_side = _OTHER_SIDE.get(verdict.cause)
    if verdict.cause == UNDETERMINED or len(report.devices) < 2 or report.argument in (other_side or ()):
        return None
    return None if report.argument in _LISTS else report.argument


def _judged(report: Report, origins: Sequence[Written]) -> tuple[Verdict, Phrase | None]:
    """The verdict, and the advice of a situation that the text tells.

    What the source says, and what prose states, outranks what printed lines look like; a message that has one
    cause outranks all.
    """
    if (own := _own_verdict(report)) is not None:
        return own, None
    if report.topic is not None:
        return verdict_elsewhere(report), None
    weighed = weigh_report(report)
    verdict = decide(weighed)
    if verdict.confidence == "certain":
        return verdict, None
    reading = read_source(report, origins) or read_printed(report) or read_story(report)
    if reading is not None and report.kind in _OF_META and reading.cause not in _LEFT_ON_META:
        reading = None
    beside = None
    if reading is None and report.beside is not None:
        reading = nothing_moved(report.beside, report)
        beside = read_story(replace(report, told=report.beside)) if reading is None else None
    if beside is not None and verdict.cause in (beside.cause, UNDETERMINED):
        reading = replace(beside, sure=beside.sure and verdict.confidence != "guess")
    elif beside is not None and verdict.confidence in beside.outranks:
        reading = beside
    if reading is None:
        return verdict, None
    named_one: dict[str, Value] = {"operand": reading.guilty} if reading.guilty else {}
    advice = Phrase(reading.situation, **named_one) if reading.situation else None
    if not reading.sure and _stands(verdict, weighed):
        if reading.cause != verdict.cause:
            return verdict, None
        reasons = (*reading.reasons, *verdict.reasons)
        return replace(verdict, guilty=reading.guilty, reasons=reasons), advice
    named = [*reading.candidates, *(each.rule.name for each in weighed if each.weight >= _HINT)]
    others = tuple(
        Weighed(rule_named(name), 0.0, ()) for name in dict.fromkeys(named) if name != reading.cause
    )
    confidence: Confidence = "likely" if reading.sure else "guess"
    return Verdict(reading.cause, confidence, others[:3], reading.reasons, reading.guilty), advice


def _own_verdict(report: Report) -> Verdict | None:
    """The verdict of a finding that the text shows: it was made where the tensors themselves were seen."""
    framed = any(frame.file for frame in report.frames)
    told = own_finding(report.words, report.message if framed else None) if report.topic is None else None
    if told is None or find_rule(told.cause) is None:
        return None
    reason = Phrase("because.own-finding", code=told.code)
    return Verdict(told.cause, told.confidence, reasons=(reason,), guilty=report.argument)


def _stands(verdict: Verdict, weighed: Sequence[Weighed]) -> bool:
    """Whether what printed lines say stands against a reading that leaves others nearly as likely."""
    return verdict.confidence == "likely" or (
        verdict.cause != UNDETERMINED and weighed[0].strongest >= _REASON
    )


def _telling(verdict: Verdict) -> tuple[Phrase, ...]:
    """The reasons that tell a reader more than the lines above them do; of a guess there may be none."""
    told = [each for each in verdict.reasons if each.key not in _SEEN_ABOVE]
    shown = [each for each in told if not any(_within(each, other) for other in told)]
    return tuple(shown[:_REASONS] if shown or verdict.confidence == "guess" else verdict.reasons[:1])


def _within(one: Phrase, other: Phrase) -> bool:
    """Whether a reason shows a part of what another one shows."""
    part, whole = str(dict(one.values).get("text", "")), str(dict(other.values).get("text", ""))
    return one.key == other.key and part != whole and bool(part) and part in whole


def _about(report: Report, verdict: Verdict) -> VerdictName:
    """Whether a text is about devices at all."""
    if report.topic is not None:
        return "not-a-device-error"
    told = report.kind != "unknown-message" or verdict.confidence != "guess"
    return "device-error" if told else "cannot-tell"


def _code(report: Report, rule: Rule) -> str:
    """What happened, where the message says so; else the code of the cause."""
    if report.topic is not None:
        return _HAPPENED[report.topic] if report.topic == "out-of-memory" else rule.code
    return _HAPPENED.get(report.kind, rule.code)


def _title(report: Report, verdict: Verdict) -> Phrase:
    if report.topic is not None:
        return title_elsewhere(report)
    if report.kind == "duplicate-gpu":
        return Phrase("rules.ranks-share-a-gpu.headline")
    if verdict.confidence == "guess" and device_pattern(report.devices):
        return Phrase("title.devices-met", devices=Several(report.devices))
    return rule_named(verdict.cause).phrase("title")


def _cure(report: Report, verdict: Verdict) -> Phrase | None:
    """What to do in general."""
    if report.topic is not None:
        return cure_elsewhere(report)
    if report.kind == "needs-host" and report.argument:
        return rule_named(verdict.cause).phrase("stays-on-host", operand=report.argument)
    own = rule_named(verdict.cause)
    if "cure-of-own" in own.sentences and report.at is not None and report.at.by_user:
        return own.phrase("cure-of-own")
    return cure_of(verdict, EventKind.DUPLICATE_GPU if report.kind == "duplicate-gpu" else None)


def _operands(report: Report) -> tuple[Operand, ...]:
    """What the message says of the tensors.

    The named argument is on the second device, or on the first in the newer wording.
    """
    if report.topic is not None:
        return ()
    if report.operands:
        return tuple(Operand(name, device, (), "") for name, device in report.operands)
    if not report.devices:
        return ()
    if (given := _handed_over(report)) is not None:
        own = _HANDED_OVER[report.kind]
        return tuple(
            Operand(given, device, (), "", local=given) if index == own else Operand("?", device, (), "")
            for index, device in enumerate(report.devices)
        )
    names = ["?", "?" if report.argument in _LISTS else report.argument or "?"]
    if report.kind == "argument-device":
        names.reverse()
    if report.kind in _NAMES:
        names = [report.argument or "feature", *_NAMES[report.kind]][-2:]
    return tuple(Operand(name, device, (), "") for name, device in zip(names, report.devices, strict=False))


def _handed_over(report: Report) -> str | None:
    """How the program writes the tensor that it gives to another library, or the module that it calls; None
    where its failing call has several arguments, or is not marked.
    """
    frame = next((each for each in reversed(report.frames) if each.by_user), None)
    if report.kind not in _HANDED_OVER or frame is None:
        return None
    match parsed(frame.marked or frame.code):
        case ast.Module(body=[ast.Expr(value=call) | ast.Assign(value=call)]) if isinstance(call, ast.Call):
            return handed_over(call, report.kind == "data-parallel-module")
    return None


def _place(frame: Frame | None) -> Place | None:
    if frame is None or (frame.file is None and not frame.code):
        return None
    return Place(frame.file or "", frame.line or 0, frame.function or "", frame.code)
