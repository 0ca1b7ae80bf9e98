"""From the source of the failing function to a cause: the operand whose device its own line decided."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from samedevice.diagnosis._rule import device_pattern
from samedevice.diagnosis.paste import Frame, Report
from samedevice.diagnosis.story import Reading
from samedevice.events import Written
from samedevice.messages import Phrase

Source = Callable[[Sequence[Frame], Sequence[str]], tuple[Written, ...]]
"""By the frames of a traceback, oldest first, and texts that show code: the origins of the operands of the
innermost frame's statement. It is handed in, since judging imports no reader.
"""


def origins_of(report: Report, source: Source | None) -> tuple[Written, ...]:
    """The origins of the operands of the failing statement, where its source is at hand."""
    at = report.at
    if source is None or at is None or at.file is None or not device_pattern(report.devices):
        return ()
    return source(report.own_frames or (at,), report.pieces)


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
        reason = Phrase("because.written-device", operand=odd.name, text=odd.text, place=_place(odd))
        return Reading("hard-coded-device", (reason,), ("tensor-created-on-wrong-device",), guilty=odd.name)
    reason = Phrase("because.written-without", operand=odd.name, text=odd.text, place=_place(odd))
    return Reading("tensor-created-on-wrong-device", (reason,), guilty=odd.name)


def _decided(each: Written, on_host: bool) -> bool:
    if each.origin == "literal":
        return each.device != "cpu" or on_host
    return on_host and each.origin in ("made", "attribute", "host")


def _place(each: Written) -> str:
    """Where the line of an origin stands; the file alone, where only a text shows it."""
    return f"{each.file}:{each.line}" if each.line is not None else each.file or ""
