"""What a check is: a code, what it reads, the faults it finds, and where its knowledge is from.

A check lives in one file of `checks/` and is found by being there. It is a function of facts alone, so that
it can be tried on recorded ones. Its texts stand in its file, in every language, as those of a cause do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from samedevice.doctor.facts import Facts, Topic
from samedevice.findings import Confidence
from samedevice.messages import Language, Phrase

Texts = Mapping[Language, str]


@dataclass(frozen=True, slots=True)
class Fault:
    """What a check found: why it says so, and what repairs it."""

    reason: Phrase
    repair: Phrase
    confidence: Confidence = "certain"
    notes: tuple[Phrase, ...] = ()


@dataclass(frozen=True, slots=True)
class Check:
    """One check."""

    code: str
    name: str
    title: Texts
    reads: tuple[Topic, ...]
    """Without one of these it cannot judge, and the report says so."""
    sources: tuple[str, ...]
    look: Callable[[Facts], Iterator[Fault]]
    sentences: Mapping[str, Texts] = field(default_factory=dict)
    """Its reasons and repairs; `checks.NAME.PART` is the key of each."""

    @property
    def texts(self) -> Mapping[str, Texts]:
        """Everything that it says, by the last part of the key."""
        return {"title": self.title, **self.sentences}

    def phrase(self, name: str) -> Phrase:
        """One of its own sentences that names no value."""
        key = f"checks.{self.name}.{name}"
        return Phrase(key)
