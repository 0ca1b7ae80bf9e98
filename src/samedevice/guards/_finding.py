"""From an exception to one finding: what its frames hold, and what its text says where that is surer."""

from __future__ import annotations

import sys
import traceback
from dataclasses import replace
from typing import TYPE_CHECKING

from samedevice.diagnosis import UNDETERMINED, explain_text, judge, rule_named
from samedevice.events import EventKind
from samedevice.findings import Finding
from samedevice.guards._live import event_of, is_recorded
from samedevice.guards._replay import ReplayError, replayed
from samedevice.messages import Phrase

if TYPE_CHECKING:
    import torch

FINDING_WITHOUT_NOTE = "_samedevice_finding_without_note"
"""Set on an exception whose finding stands in no note yet: what heals says only why it did not."""


def findings_of(
    error: BaseException,
    model: torch.nn.Module | None = None,
    replay: bool = False,
) -> list[Finding[Phrase]]:
    """What an exception means.

    `model` names parameters where no frame of a module does, `replay` looks for birthplaces.
    """
    event = event_of(error, model)
    if event is None:
        return [_of_environment(finding) for finding in _told(error)]
    known = [operand.made is not None or operand.parameter is not None for operand in event.operands]
    if replay and event.kind is EventKind.MISMATCH and not (known and all(known)):
        try:
            event = replayed(error, event)
        except ReplayError as reason:
            event = replace(event, notes=(*event.notes, Phrase("replay.none", reason=reason.why)))
    live = judge(event)
    if is_recorded() or hasattr(error, "samedevice_event"):
        return [_sure_of_what_is_known(live)]  # words tell less than why its operands are there
    said = next((each for each in _told(error) if each.cause != UNDETERMINED and _of_devices(each)), None)
    if said is not None and _surer(said, live):
        # What the text says is surer; what the frames hold still names the tensors.
        live = replace(
            live,
            cause=said.cause,
            confidence="guess" if said.confidence == "likely" else said.confidence,
            candidates=said.candidates,
            reasons=said.reasons,
            cure=said.cure,
        )
    return [live if replay else _unrecorded(live)]


def _told(error: BaseException) -> list[Finding[Phrase]]:
    """What the text of an exception means."""
    return explain_text("".join(traceback.format_exception(error)))


def _sure_of_what_is_known(finding: Finding[Phrase]) -> Finding[Phrase]:
    """A cause is a guess where nobody knows how the operand that it blames came there."""
    blamed = [each for each in finding.operands if finding.guilty in (None, each.name)]
    known = all(each.parameter or each.made or each.moved or each.lineage for each in blamed)
    return finding if known or finding.confidence != "likely" else replace(finding, confidence="guess")


def _unrecorded(finding: Finding[Phrase]) -> Finding[Phrase]:
    """A finding without a record, which says how to know where its cause is a guess for want of one."""
    sure = _sure_of_what_is_known(finding)
    if sure is finding and finding.cause != UNDETERMINED:
        return finding
    return replace(sure, notes=(*finding.notes, Phrase("guard.not-recorded")))


def device_finding(
    error: BaseException,
    model: torch.nn.Module | None = None,
    replay: bool = False,
) -> Finding[str | Phrase] | None:
    """The finding of an exception that has to do with devices; None for any other."""
    known = getattr(error, "finding", None)
    if isinstance(known, Finding):
        return known
    if not isinstance(error, Exception):
        return None
    speaks = event_of(error, model) is not None
    for finding in findings_of(error, model, replay):
        recognised = finding.code == "SD104" or (
            finding.kind not in (None, "unknown-message")
            and finding.cause != UNDETERMINED
            and _of_devices(finding)
        )
        if (
            speaks or recognised
        ):  # a line of the traceback that names a device makes no device error of another one
            return finding
    return None


def _of_environment(finding: Finding[Phrase]) -> Finding[Phrase]:
    """A finding that says what is lacking here, where it is about CUDA and this process has none.

    That is no fault of a script.
    """
    torch = sys.modules.get("torch")
    if finding.kind != "cuda-not-compiled" or torch is None or torch.cuda.is_available():
        return finding
    version, built = str(torch.__version__), torch.version.cuda
    rule = rule_named("hardware-or-driver")
    others = [cause for cause in (finding.cause, *finding.candidates) if cause != rule.name]
    return replace(
        finding,
        code=rule.code,
        cause=rule.name,
        confidence="certain",
        candidates=tuple(others),
        title=Phrase("title.no-cuda-build" if built is None else "title.no-cuda-device"),
        reasons=(
            Phrase("because.no-cuda-build", version=version)
            if built is None
            else Phrase("because.no-cuda-device", version=version, built=built),
        ),
        cure=Phrase("cure.no-cuda-build" if built is None else "cure.no-cuda-device"),
        fixes=(),
    )


def _of_devices(finding: Finding[Phrase]) -> bool:
    return finding.verdict != "not-a-device-error"


def _surer(one: Finding[Phrase], other: Finding[Phrase]) -> bool:
    order = ("guess", "likely", "certain")
    return other.cause == UNDETERMINED or order.index(one.confidence) > order.index(other.confidence)
