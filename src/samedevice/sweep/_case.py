"""One model ready to be tried: how it is made, what it is called with, how it is spread."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from samedevice.sweep._cuts import Cut

Map = dict[str, Any]
Given = dict[str, Any]


class Untried(Exception):
    """A target that cannot be tried, with the reason; no device bug."""


@dataclass(frozen=True, slots=True)
class Full:
    """A model in a size in which people have it."""

    name: str
    load: Callable[[], Any]
    """As users load it: spread over the GPUs of the machine by `device_map="auto"`, without weights."""
    given: Callable[[Any], Iterator[tuple[Given, Given]]]
    """Inputs and labels to try with it, like those of the small model."""


@dataclass(slots=True)
class Case:
    """A model that ran on one GPU."""

    model: Any
    """On the CPU, in evaluation mode."""
    inputs: Given
    labels: Given
    """Empty where no loss comes out of it."""
    size: str
    """Which of the sizes it is, in words of the table."""
    no_split: tuple[str, ...] = ()
    declares: bool = True
    """Whether the model says itself which blocks must stay whole."""
    sizes: Callable[[Any], Mapping[str, int]] | None = None
    infer: Callable[[Any, Mapping[Any, int]], Map] | None = None
    """The library's own automatic placement: a map for so many bytes of each device."""
    spread: Callable[[Any, Map], Any] | None = None
    offloads: Mapping[str, Callable[[Any], Any]] = field(default_factory=dict)
    """Ways to keep weights in host memory that the library offers, by name; each is given a fresh model."""
    finish: Callable[[Any], Any] | None = None
    """What is done with the model on one GPU before it is called; `spread` and `load` do it themselves."""
    load: Callable[[str, Mapping[Any, int]], Any] | None = None
    """The public way: a fresh model by a mode of `device_map` and `max_memory`."""
    modes: tuple[str, ...] = ("auto", "sequential")
    """What `load` takes for a mode."""
    cuts: Callable[[int], Iterator[Cut]] | None = None
    """Its own placements over so many GPUs, where it is not placed by budgets of them."""
    full: Callable[[], Iterator[Full]] | None = None
    """The class in released sizes."""
    origin: tuple[str, str, str, Mapping[str, Any]] | None = None
    """How a script makes it: library, class, class of its configuration, and what that is given."""
    folder: str | None = None
    """Where its checkpoint lies, as soon as there is one."""

    def saved(self) -> str:
        """The folder of its checkpoint; the model writes one where there is none. Most models nobody asks."""
        if self.folder is None:
            self.folder = saved(self.model)
        return self.folder


def saved(model: Any) -> str:
    """A new folder that a model was saved to."""
    folder = tempfile.mkdtemp(prefix="samedevice-sweep-")
    model.save_pretrained(folder)
    return folder


@dataclass(frozen=True, slots=True)
class Listed:
    """A target that a package has."""

    name: str
    """Dotted module and class: `pkg.models.x:Class`."""
    fingerprint: str
    """Of its source: another one means that it must be tried again."""


class Library(Protocol):
    """What a sweep needs to know about a package."""

    def targets(self) -> Iterator[Listed]:
        """Everything that can be tried."""

    def prepare(self) -> None:
        """Import what every target needs, before processes are forked."""

    def bring(self, name: str) -> None:
        """Import what this target and its neighbours need, before its process is forked.

        Whatever it raises, the target's own process finds again.
        """

    def case(self, name: str, actions: tuple[str, ...]) -> Case:
        """Make one, inside a virtual machine. Raises `Untried`."""
