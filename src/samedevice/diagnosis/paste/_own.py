"""A finding of samedevice that a text shows, as a screen prints it in either language."""

# ruff: noqa: E501 # one pattern

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from samedevice.diagnosis.paste._pattern import Pattern

_FINDING = Pattern(
    r"\b(?P<code>SD\d{3}) [a-z-]{4,60}:.{0,4000}?\b(?:cause|根源)\s{1,8}(?P<cause>[a-z-]{4,60})\s?\((?P<sure>\w{1,12})\)",
    re.DOTALL,
)
_GUESSES = ("guess", "猜测")


@dataclass(frozen=True, slots=True)
class OwnFinding:
    """What such a finding says."""

    code: str
    cause: str
    confidence: Literal["likely", "guess"]


def own_finding(text: str) -> OwnFinding | None:
    """The first finding that a text shows: its headline, and the line of its cause."""
    found = _FINDING.search(text)
    if found is None:
        return None
    return OwnFinding(found["code"], found["cause"], "guess" if found["sure"] in _GUESSES else "likely")
