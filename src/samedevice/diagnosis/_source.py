"""From the source of the failing function to a cause: the operand whose device its own line decided."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from samedevice.diagnosis._rule import device_pattern
from samedevice.diagnosis.paste import Report
from samedevice.diagnosis.story import Reading
from samedevice.events import Written
from samedevice.messages import Phrase


@dataclass(frozen=True, slots=True)
class Source:
    """How source is read; handed in, since judging imports no reader."""

    installed: Callable[[str, str | None, int | None, str], tuple[Written, ...]]
    """By file, function, line and printed code of a frame: the origins of the operands."""
    shown: Callable[[str, str | None, str], tuple[Written, ...]]
    """By text, function and printed code, where the paste shows the source itself."""


def origins_of(report: Report, source: Source | None) -> tuple[Written, ...]:
    """The origins of the operands of the failing statement, where its source is at hand."""
    at = report.at
    if source is None or at is None or at.file is None or not device_pattern(report.devices):
        return ()
    found = source.installed(at.file, at.function, at.line, at.code)
    pieces = iter(report.pieces)
    while not found and (piece := next(pieces, None)) is not None:
        found = source.shown(piece, at.function, at.code)
    return found


def read_source(report: Report, origins: Sequence[Written]) -> Reading | None:
    """The cause that the origins amount to.

    One operand, and only one, is where its own line put it, while the others come from elsewhere.
    """
    on_host = device_pattern(report.devices) == "host"
    decided = [each for each in origins if _decided(each, on_host)]
    if len(decided) != 1 or len(origins) < 2:
        return None
    odd = decided[0]
    if odd.origin == "literal":
        reason = Phrase("because.written-device", operand=odd.name, text=odd.text, line=odd.line or 0)
        return Reading("hard-coded-device", (reason,), ("tensor-created-on-wrong-device",), guilty=odd.name)
    reason = Phrase("because.written-without", operand=odd.name, text=odd.text, line=odd.line or 0)
    return Reading("tensor-created-on-wrong-device", (reason,), guilty=odd.name)


def _decided(each: Written, on_host: bool) -> bool:
    if each.origin == "literal":
        return each.device != "cpu" or on_host
    return on_host and each.origin in ("made", "attribute", "host")
