"""Attributes that a virtual machine replaces, and their exact return.

Must guarantee: after `undo`, every owner's own `__dict__` (or mapping) holds what it held before, in the case of an attribute
that was only inherited nothing at all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, MutableMapping
from typing import Any

from samedevice.runtime._slots import put_back, sequence_slots

_ABSENT = object()


class Patches:
    """A stack of replaced attributes and mapping entries."""

    def __init__(self) -> None:
        self._undo: list[tuple[Any, str, Any, bool]] = []
        self._calls: list[tuple[str, Callable[[], object]]] = []
        self._slots: dict[type, dict[type, int]] = {}
        """Of classes whose `__getitem__` is replaced; see Note [The sequence slot]."""

    def attribute(self, owner: Any, name: str, value: Any) -> None:
        """Replace `owner.name`; the class or module itself is changed, never its bases."""
        self._undo.append((owner, name, vars(owner).get(name, _ABSENT), False))
        slots = sequence_slots(owner) if name == "__getitem__" and isinstance(owner, type) else {}
        setattr(owner, name, value)
        if slots:
            self._slots[owner] = slots
            put_back(owner, slots)

    def item(self, mapping: MutableMapping[str, Any], key: str, value: Any) -> None:
        """Replace `mapping[key]`."""
        self._undo.append((mapping, key, mapping.get(key, _ABSENT), True))
        mapping[key] = value

    def call(self, change: Callable[[], object], restore: Callable[[], object], name: str) -> None:
        """Make a change that is no attribute; `name` says what it touches."""
        change()
        self._calls.append((name, restore))

    def names(self) -> list[str]:
        """What is replaced now, as dotted names, sorted."""
        found = {name for name, _ in self._calls}
        for owner, name, _, is_item in self._undo:
            if is_item:
                found.add(f"[{name}]")
            else:
                module = getattr(owner, "__module__", None)
                found.add(".".join(part for part in (module, getattr(owner, "__qualname__", owner.__name__), name) if part))
        return sorted(found)

    def values(self) -> list[tuple[Any, str, Any]]:
        """Owner, name and value of each replaced attribute as it is now."""
        return [(owner, name, vars(owner).get(name, _ABSENT)) for owner, name, _, is_item in self._undo if not is_item]

    def restore(self, values: Iterable[tuple[Any, str, Any]]) -> None:
        """Give attributes back the values that `values` saw, where somebody else changed them since."""
        for owner, name, value in values:
            if vars(owner).get(name, _ABSENT) is not value:
                if value is _ABSENT:
                    delattr(owner, name)
                else:
                    setattr(owner, name, value)

    def undo(self) -> None:
        """Put everything back, last replaced first."""
        while self._calls:
            self._calls.pop()[1]()
        while self._undo:
            owner, name, old, is_item = self._undo.pop()
            if is_item:
                if old is _ABSENT:
                    owner.pop(name, None)
                else:
                    owner[name] = old
                continue
            if old is _ABSENT:
                delattr(owner, name)
            else:
                setattr(owner, name, old)
            if name == "__getitem__" and owner in self._slots:
                put_back(owner, self._slots.pop(owner))
