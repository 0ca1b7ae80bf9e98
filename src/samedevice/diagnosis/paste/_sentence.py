"""The sentence of an error that no row knows: what it states about devices.

Libraries word the same thing in many ways, and the ways are few: one device is demanded, two differ, none is
there, a number is too high. Must guarantee: two devices beside each other are no mismatch, and a device that
an option may be set to is nowhere; the sentence has to state something.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from samedevice.diagnosis.paste._operands import DEVICE_NAME, operands_in
from samedevice.diagnosis.paste._phrasings import (
    CHOICE,
    CONTRAST,
    DEMAND,
    INSTALLS,
    NUMBERS,
    ONLY,
    PINS,
    RANK,
    REFUSAL,
    REQUIRED,
    STATES,
    TOGETHER,
)

_ONE_OF = 3
"""So many devices beside each other are a list of those that exist."""
_HOSTS = ("cpu", "cpus", "host")


@dataclass(frozen=True, slots=True)
class Sentence:
    """What such a sentence says."""

    kind: str
    """`same-device`, `needs-gpu`, `needs-host`, `gpu-required`, or a kind of the table of messages."""
    devices: tuple[str, ...] = ()
    operands: tuple[tuple[str, str], ...] = ()
    argument: str | None = None
    ranks: tuple[int, ...] = ()


def read_sentence(text: str) -> Sentence | None:
    """What an error's own words say of devices; None where they state nothing of them."""
    named = tuple(dict.fromkeys(found[0].lower() for found in DEVICE_NAME.finditer(text)))
    rank = RANK.search(text)
    ranks = (int(rank[1]),) if rank else ()
    stated = next((kind for kind, pattern in STATES if pattern.search(text)), None)
    if stated is not None:
        return Sentence(stated, ranks=ranks)
    choice = offers_devices(text)
    asked = None if choice else _asked(text)
    named_on_host = asked is not None and asked.kind == "needs-host" and asked.argument is not None
    if 2 <= len(named) < _ONE_OF and not choice and not named_on_host and CONTRAST.search(text):
        wanted = asked is not None and asked.kind == "needs-gpu" and named[0] != "cpu"
        return _apart(text, named, asked.argument if asked is not None and wanted else None, ranks)
    if asked is not None:
        devices = named[:2] if asked.kind == "needs-host" else ()
        return Sentence(asked.kind, devices, argument=asked.argument, ranks=ranks)
    if (together := TOGETHER.search(text)) is not None:
        argument = _given(together.groupdict(), "argument")
        return _apart(text, named if len(named) == 2 else (), argument, ranks)
    required = REQUIRED.search(text) is not None and not INSTALLS.search(text)
    return Sentence("gpu-required", ranks=ranks) if required else None


def _apart(text: str, devices: tuple[str, ...], argument: str | None, ranks: tuple[int, ...]) -> Sentence:
    """What ought to be on one device, with the operands that the sentence places."""
    operands = operands_in(text)
    return Sentence("same-device", devices, operands if len(operands) > 1 else (), argument, ranks)


def offers_devices(text: str) -> bool:
    """Whether a sentence names devices that an option may be set to."""
    found = CHOICE.search(text)
    return found is not None and ("cpu" in found[0].lower() or " of" in found[0])


def _asked(text: str) -> Sentence | None:
    """The side on which an operand has to be, and its name."""
    if (demand := DEMAND.search(text)) is not None:
        said = demand.groupdict()
        return _side(_given(said, "side") or "", _given(said, "argument"), text)
    only, refusal = ONLY.search(text), REFUSAL.search(text)
    if only is not None and only["others"] and "cpu" in only[0].lower():
        return None
    if only is not None and only["tensors"]:
        return _side(_given(only.groupdict(), "side") or "", None, text)
    if NUMBERS.search(text):
        return None
    if only is not None:
        side = _given(only.groupdict(), "side") or ""
        return _side(side, None, text) if side.lower() in _HOSTS else Sentence("gpu-required")
    if refusal is not None:
        return _side("gpu" if _given(refusal.groupdict(), "side") in ("cpu", "CPU") else "cpu", None, text)
    return None


def _given(groups: Mapping[str, str | None], name: str) -> str | None:
    """The first group of a kind that matched."""
    return next((value for key, value in groups.items() if value and key.startswith(name)), None)


def _side(side: str, operand: str | None, text: str) -> Sentence:
    if side.lower() not in _HOSTS:
        return Sentence("needs-gpu", argument=operand)
    return Sentence("pin-device" if PINS.search(text) else "needs-host", argument=operand)
