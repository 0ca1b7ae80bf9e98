"""A finding of samedevice that a text shows, as a screen prints it in either language."""

# ruff: noqa: E501 # one pattern

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from samedevice.diagnosis.paste._pattern import Pattern

_FINDING = Pattern(
    r"\b(?P<code>SD\d{3}) [a-z-]{4,60}:(?:(?!Traceback).){0,2000}?\b(?:cause|根源)\s{1,8}(?P<cause>[a-z-]{4,60})\s?\((?P<sure>certain|likely|guess|确定|很可能|猜测)\)",
    re.DOTALL,
)
_RIGHT_BEHIND = 120
"""Characters between a message and the finding that a virtual machine writes below it."""
_GUESSES = ("guess", "猜测")


@dataclass(frozen=True, slots=True)
class OwnFinding:
    """What such a finding says."""

    code: str
    cause: str
    confidence: Literal["likely", "guess"]


def own_finding(text: str, message: str | None) -> OwnFinding | None:
    """The first finding that a text shows: its headline, and the line of its cause.

    Where the text has an error as well, with a `message`, the finding must stand right behind it.
    """
    start = text.rfind(message) + len(message) if message and message in text else 0
    found = _FINDING.search(text, start)
    if found is None or (start and found.start() - start > _RIGHT_BEHIND):
        return None
    return OwnFinding(found["code"], found["cause"], "guess" if found["sure"] in _GUESSES else "likely")
