"""Methods of one object, guarded, and given back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from samedevice.guards import Guard, add_layer, called_method


class GuardedMethods:
    """Puts a guard around methods of instances; classes stay as they are."""

    def __init__(self, guard: Guard) -> None:
        self._guard = guard
        self._removals: list[Callable[[], None]] = []

    def add(self, owner: Any, name: str) -> None:
        """Guard `owner.name`."""
        self.layer(owner, called_method(owner) if name == "forward" else name, self._guard)

    def layer(self, owner: Any, name: str, layer: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
        """Put any layer around `owner.name`."""
        self._removals.append(add_layer(owner, name, layer))

    def remove(self) -> None:
        """Take everything off."""
        while self._removals:
            self._removals.pop()()
