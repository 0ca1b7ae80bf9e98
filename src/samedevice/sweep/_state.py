"""What a model has in it, so that two looks can tell whether a run changed something.

Must guarantee: what is compared is kept, so that nothing new is taken for something old; all that a module
has is compared, with what stands in its lists and tables; any other object is equal to itself alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

_DEEPEST = 4
_NOT_LOOKED_AT = frozenset(("_modules", "_hf_hook"))
"""Modules are looked at themselves; a hook remembers devices, which is what it is for."""
_PLAIN = (int, float, complex, str, bytes, bool, type(None))


class _Same:
    """One object, equal to itself alone, and kept as long as this is."""

    __slots__ = ("it",)
    __hash__ = None  # type: ignore[assignment] # it is compared and nothing else

    def __init__(self, it: object) -> None:
        self.it = it

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self.it is other.it


def state_of(model: Any) -> list[Any]:
    """Something that is equal as long as nothing in the model changed."""
    return [
        mark
        for module in getattr(model, "modules", lambda: (model,))()
        for name, value in vars(module).items()
        if name not in _NOT_LOOKED_AT
        for mark in (name, *_marks(value, _DEEPEST))
    ]


def _marks(value: Any, depth: int) -> Iterator[Any]:
    import torch

    if isinstance(value, torch.Tensor):
        yield from (_Same(value), value._version, _Same(value.grad), value.device)
    elif isinstance(value, _PLAIN):
        yield value
    elif depth == 0:
        yield _Same(value)
    elif isinstance(value, Mapping):
        yield len(value)
        for name, each in value.items():
            yield from (_Same(name) if not isinstance(name, _PLAIN) else name, *_marks(each, depth - 1))
    elif isinstance(value, (list, tuple, set, frozenset)):
        yield len(value)
        for each in value:
            yield from _marks(each, depth - 1)
    else:
        yield _Same(value)
        if not isinstance(value, (type, torch.nn.Module)) and not callable(value):
            yield from _marks(getattr(value, "__dict__", None), depth - 1)
