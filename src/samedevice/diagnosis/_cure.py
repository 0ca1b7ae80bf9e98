"""What to do about a cause in general."""

from __future__ import annotations

from samedevice.diagnosis._codes import code_for
from samedevice.diagnosis._weigh import UNDETERMINED, Verdict
from samedevice.diagnosis.rules import rule_named
from samedevice.events import EventKind
from samedevice.messages import Phrase


def cure_of(verdict: Verdict, kind: EventKind | None) -> Phrase | None:
    """What to do about it in general; for an unknown cause of a mismatch, what to record next."""
    own = (EventKind.COLLECTIVE, EventKind.SHARED_GPU)
    if kind is EventKind.DUPLICATE_GPU or (kind in own and verdict.cause == UNDETERMINED):
        return code_for(kind).phrase("cure")
    if verdict.cause == UNDETERMINED and kind not in (EventKind.MISMATCH, EventKind.UNMATERIALIZED, None):
        return None
    if verdict.cause == UNDETERMINED and kind is not None:
        return Phrase("record-next")
    return rule_named(verdict.cause).phrase("cure")
