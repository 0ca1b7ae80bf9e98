"""From a pasted text to findings: one for each error that the text shows, the last one first."""

from __future__ import annotations

from samedevice.diagnosis._judge import cure_of
from samedevice.diagnosis._rule import device_pattern
from samedevice.diagnosis._weigh import UNDETERMINED, decide, weigh_report
from samedevice.diagnosis.fixes import releases_for
from samedevice.diagnosis.paste import Frame, Report, read_paste
from samedevice.diagnosis.rules import rule_named
from samedevice.events import Operand, Place
from samedevice.findings import Finding
from samedevice.messages import Phrase, Several

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
    "meta-copy": "SD102",
    "meta-device": "SD102",
    "meta-value": "SD102",
    "generator-device": "SD103",
    "out-of-memory": "SD104",
    "illegal-access": "SD105",
    "collective-device": "SD109",
}
"""What happened, where the message says so; else the code of a finding is that of its cause."""
_APP_FOLDERS = ("/", "~", "<", "script.py", ".")


def explain_text(text: str) -> list[Finding[Phrase]]:
    """The findings of a pasted text; a single `undetermined` one when no error is recognised in it."""
    return [explain_report(report) for report in read_paste(text)]


def explain_report(report: Report) -> Finding[Phrase]:
    """The finding that one report amounts to."""
    verdict = decide(weigh_report(report))
    rule = rule_named(verdict.cause)
    title = rule.phrase("title")
    if verdict.cause == UNDETERMINED and device_pattern(report.devices):
        title = Phrase("title.devices-met", devices=Several(report.devices))
    notes = []
    if report.ranks:
        notes.append(Phrase("note.ranks", ranks=", ".join(map(str, report.ranks))))
    notes += [Phrase("note.earlier", kind=kind) for kind in report.earlier[:3]]
    user = next((frame for frame in reversed(report.frames) if _by_user(frame)), None)
    return Finding(
        code=_HAPPENED.get(report.kind, rule.code),
        cause=verdict.cause,
        confidence=verdict.confidence,
        title=title,
        message=report.message,
        op=report.op,
        at=_place(report.at),
        user_at=_place(user),
        module=None,
        operands=_operands(report),
        candidates=tuple(each.rule.name for each in verdict.candidates),
        fixes=releases_for(report, verdict),
        notes=tuple(notes),
        guilty=report.argument if verdict.cause != UNDETERMINED and len(report.devices) > 1 else None,
        reasons=verdict.reasons[:3],
        cure=cure_of(verdict, None),
        exception=report.exception,
        kind=report.kind,
        stack=tuple(place for frame in report.frames if (place := _place(frame)) is not None),
        versions=dict(report.versions),
    )


def _operands(report: Report) -> tuple[Operand, ...]:
    """What the message says of the tensors. The named argument is on the second device, or on the first in
    the newer wording.
    """
    if not report.devices:
        return ()
    names = ["?", report.argument or "?"]
    if report.kind == "argument-device":
        names.reverse()
    if report.kind == "generator-device":
        names = ["self", "generator"]
    return tuple(Operand(name, device, (), "") for name, device in zip(names, report.devices, strict=False))


def _place(frame: Frame | None) -> Place | None:
    if frame is None or (frame.file is None and not frame.code):
        return None
    return Place(frame.file or "", frame.line or 0, frame.function or "", frame.code)


def _by_user(frame: Frame) -> bool:
    """Whether a frame is of a script, a notebook or a project, not of an installed package."""
    return frame.file is not None and frame.file.startswith(_APP_FOLDERS)
