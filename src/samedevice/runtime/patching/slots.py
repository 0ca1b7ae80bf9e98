"""The C slot that makes objects of a class a sequence.

Note [The sequence slot]
Setting `__getitem__` on a class fills two C slots of it and of its subclasses: that of mappings and that of
sequences. Deleting it again empties neither. torch's own tensors have no sequence slot, and
`torch.tensor([x[0], x[1]])` asks C whether its elements are sequences: with the slot filled it asks a scalar
for its length. So the slot keeps what it held, inside a machine and after it.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Iterator

_POINTER = ctypes.sizeof(ctypes.c_void_p)
_TO_SEQUENCE_METHODS = object.__basicsize__ + ctypes.sizeof(ctypes.c_ssize_t) + 10 * _POINTER
"""Where `tp_as_sequence` is in a `PyTypeObject`: the head of a variable-sized object and ten pointers go
before.
"""
_ITEM = 3
"""Position of `sq_item` in `PySequenceMethods`."""


def sequence_slots(owner: type) -> dict[type, int]:
    """What the slot of a class and of each of its subclasses holds.

    Nothing where the layout is not the known one.
    """
    return {each: _slot(each).value or 0 for each in _family(owner)} if _known_layout() else {}


def put_back(owner: type, slots: dict[type, int]) -> None:
    """Fill the slots with what they held.

    Classes made since then take the owner's, if they have no items of their own.
    """
    if not slots:
        return
    for each in _family(owner):
        held = slots.get(each)
        if held is None and not any(
            "__getitem__" in vars(base) for base in each.__mro__[: each.__mro__.index(owner)]
        ):
            held = slots[owner]
        if held is not None:
            _slot(each).value = held


def _family(owner: type) -> Iterator[type]:
    seen: set[type] = set()
    waiting = [owner]
    while waiting:
        each = waiting.pop()
        if each not in seen:
            seen.add(each)
            yield each
            waiting.extend(type.__subclasses__(each))


def _slot(owner: type) -> ctypes.c_void_p:
    methods = ctypes.c_void_p.from_address(id(owner) + _TO_SEQUENCE_METHODS).value
    assert methods is not None, "a class made in Python has room for sequence methods"
    return ctypes.c_void_p.from_address(methods + _ITEM * _POINTER)


@functools.cache
def _known_layout() -> bool:
    class Without:
        pass

    class With:
        def __getitem__(self, index: int) -> int:
            return index

    methods = [
        ctypes.c_void_p.from_address(id(each) + _TO_SEQUENCE_METHODS).value for each in (Without, With)
    ]
    return all(methods) and not _slot(Without).value and bool(_slot(With).value)


__all__ = ["put_back", "sequence_slots"]
