"""The codes of the virtual machine and the guard, one row each. A code is never reused, not even for a rule that is gone."""

from __future__ import annotations

from dataclasses import dataclass

from samedevice.events import EventKind


@dataclass(frozen=True, slots=True)
class Code:
    """A rule's stable code and its name, which reads after "allow"."""

    code: str
    name: str
    kind: EventKind
    """The kind of event that this rule judges."""


CODES: tuple[Code, ...] = (
    Code("SD101", "cross-device-operands", EventKind.MISMATCH),
    Code("SD102", "unmaterialized-weights", EventKind.UNMATERIALIZED),
    Code("SD103", "generator-on-other-device", EventKind.GENERATOR),
    Code("SD104", "out-of-memory", EventKind.OUT_OF_MEMORY),
    Code("SD105", "unchecked-kernel", EventKind.UNCHECKED),
    Code("SD106", "device-from-unordered-set", EventKind.NONDETERMINISTIC_DEVICE),
)

_BY_KIND = {row.kind: row for row in CODES}
_BY_CODE = {row.code: row for row in CODES}
assert len(_BY_KIND) == len(_BY_CODE) == len(CODES) == len(EventKind), "every kind of event has exactly one code"


def code_for(kind: EventKind) -> Code:
    """The row that judges events of `kind`."""
    return _BY_KIND[kind]


def code_of(code: str) -> Code:
    """The row of a code such as `SD101`; raises `KeyError` when there is none."""
    return _BY_CODE[code]
