"""What a run did to each GPU's memory, operator by operator, as plain records.

Time is the number of operators that ran: a virtual GPU has no speed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from samedevice.events import Place

KINDS = ("weights", "gradients", "optimizer", "activations", "kept", "working")
"""What memory is for.

`activations` were kept from a forward pass for its backward pass, `kept` from one without gradients, such as
a KV cache; `working` is the rest.
"""


@dataclass(frozen=True, slots=True)
class Sample:
    """Bytes of one GPU at one moment."""

    at: int
    held: tuple[int, ...]
    """Of each of `KINDS`."""
    reserved: int


@dataclass(frozen=True, slots=True)
class Phase:
    """A forward pass, a backward pass, or an optimizer's step."""

    name: str
    start: int
    end: int
    what: str
    """The class of the model or of the optimizer."""


@dataclass(frozen=True, slots=True)
class Work:
    """An operator on one device."""

    at: int
    name: str
    device: str


@dataclass(frozen=True, slots=True)
class Transfer:
    """Bytes that went from one device to another by one statement."""

    source: str
    target: str
    nbytes: int
    count: int
    place: Place | None


@dataclass(frozen=True, slots=True)
class Move:
    """One copy between devices."""

    at: int
    source: str
    target: str
    nbytes: int


@dataclass(frozen=True, slots=True)
class Copies:
    """What a run copied between devices."""

    count: int = 0
    nbytes: int = 0
    again: int = 0
    """How many of them a statement had made before, of the same memory, unchanged, to the same device."""
    again_nbytes: int = 0

    def with_one(self, nbytes: int, again: bool) -> Copies:
        """These and one more."""
        return Copies(
            self.count + 1,
            self.nbytes + nbytes,
            self.again + again,
            self.again_nbytes + nbytes * again,
        )


@dataclass(frozen=True, slots=True)
class Layer:
    """Modules side by side that are on one device."""

    module: str
    kind: str
    device: str
    nbytes: int


@dataclass(frozen=True, slots=True)
class Timeline:
    """A whole run of one process."""

    operators: int
    memory: Mapping[str, tuple[Sample, ...]]
    phases: tuple[Phase, ...]
    transfers: tuple[Transfer, ...]
    layers: Mapping[str, tuple[Layer, ...]]
    """Of each model that was called, by its class; a second one of that class has a number behind it."""
    work: tuple[Work, ...]
    """The first operators, as many as were asked for."""
    moves: tuple[Move, ...]
    """The first copies between devices, as many."""
