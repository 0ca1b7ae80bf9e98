"""Attributes that a virtual machine replaces, and their exact return.

Must guarantee: after `undo`, every owner's own `__dict__` (or mapping) holds what it held before, in the case
of an attribute that was only inherited nothing at all, whatever became of it in between: replaced again,
deleted, or refused by one owner. Copies in modules that were imported in between are given back, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, MutableMapping
from typing import Any

from samedevice.runtime.patching.copies import give_back, loaded
from samedevice.runtime.patching.modules import LoadedModules
from samedevice.runtime.patching.slots import put_back, sequence_slots

_ABSENT = object()


class Patches:
    """A stack of changes: replaced attributes, replaced mapping entries, and calls that have an opposite."""

    def __init__(self) -> None:
        self._steps: list[tuple[str, Callable[[], object]]] = []
        """Name and restoring call of each change, in the order they were made."""
        self._attributes: list[tuple[Any, str]] = []
        self._replaced: dict[int, tuple[Any, Any]] = {}
        """By identity: functions that were put in place, and what they replaced first."""
        self._before = loaded()
        self.loaded = LoadedModules()
        """Where copies of what is replaced are looked for."""

    def attribute(self, owner: Any, name: str, value: Any) -> None:
        """Replace `owner.name`; the class or module itself is changed, never its bases."""
        old = vars(owner).get(name, _ABSENT)
        # Only of classes whose `__getitem__` is replaced; see Note [The sequence slot].
        slots = sequence_slots(owner) if name == "__getitem__" and isinstance(owner, type) else {}

        def restore() -> None:
            try:
                _set(owner, name, old)
            finally:
                put_back(owner, slots)

        self._steps.append((_dotted(owner, name), restore))
        self._attributes.append((owner, name))
        if callable(value) and callable(old) and old is not value:
            self._replaced.setdefault(id(value), (value, self.original(old)))
        setattr(owner, name, value)
        put_back(owner, slots)

    def item(self, mapping: MutableMapping[str, Any], key: str, value: Any) -> None:
        """Replace `mapping[key]`."""
        old = mapping.get(key, _ABSENT)

        def restore() -> None:
            if old is _ABSENT:
                mapping.pop(key, None)
            else:
                mapping[key] = old

        self._steps.append((f"[{key}]", restore))
        mapping[key] = value

    def call(self, change: Callable[[], object], restore: Callable[[], object], name: str) -> None:
        """Make a change that is no attribute; `name` says what it touches."""
        change()
        self._steps.append((name, restore))

    def names(self) -> list[str]:
        """What is replaced now, as dotted names, sorted."""
        return sorted({name for name, _ in self._steps})

    def original(self, value: Any) -> Any:
        """What `value` was put in place of; `value` itself when that is nothing."""
        return self._replaced[id(value)][1] if id(value) in self._replaced else value

    def values(self) -> list[tuple[Any, str, Any]]:
        """Owner, name and value of each replaced attribute as it is now."""
        return [(owner, name, vars(owner).get(name, _ABSENT)) for owner, name in self._attributes]

    def restore(self, values: Iterable[tuple[Any, str, Any]]) -> None:
        """Give attributes back the values that `values` saw, where somebody else changed them since."""
        for owner, name, value in values:
            if vars(owner).get(name, _ABSENT) is not value:
                _set(owner, name, value)

    def undo(self) -> None:
        """Put everything back, last change first.

        A step that fails keeps no other from its turn; all errors are raised together at the end.
        """
        errors: list[BaseException] = []
        self._attributes.clear()
        copied = dict(self._replaced)
        self._replaced.clear()
        while self._steps:
            name, restore = self._steps.pop()
            try:
                restore()
            except BaseException as error:
                error.add_note(f"while samedevice put back {name}")
                errors.append(error)
        give_back(copied, self._before)
        if errors:
            raise BaseExceptionGroup("what a virtual machine had replaced could not all be put back", errors)


def _set(owner: Any, name: str, value: Any) -> None:
    """Make the owner's own attribute what it was, or nothing at all."""
    if value is not _ABSENT:
        setattr(owner, name, value)
    elif name in vars(owner):
        delattr(owner, name)


def _dotted(owner: Any, name: str) -> str:
    module = getattr(owner, "__module__", None)
    return ".".join(
        part for part in (module, getattr(owner, "__qualname__", None) or owner.__name__, name) if part
    )
