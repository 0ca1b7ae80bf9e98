"""What a call leaves behind: in the model, in its own arguments, in random generators.

A call that leaves nothing may be made again and gives the same numbers. Must guarantee: what cannot be compared counts as changed.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

_DEPTH = 3
_ITEMS = 200
_OURS = frozenset({"forward", "generate"})
"""What healing itself puts on a module."""
_PLAIN = (int, float, str, bytes, bool, complex, type(None))


class Traces:
    """The state of a model, of arguments and of random generators before a call."""

    def __init__(self, model: torch.nn.Module, *arguments: Any) -> None:
        self._model = model
        self._arguments = arguments
        self._before = list(self._marks())

    def left(self) -> bool:
        """Whether anything is not as it was."""
        now = list(self._marks())
        return len(now) != len(self._before) or not all(map(_same, now, self._before))

    def _marks(self) -> Iterator[Any]:
        for module in self._model.modules():
            for name, value in vars(module).items():
                if name not in _OURS and not hasattr(value, "_layered") and not name.endswith("_hooks") and "_hooks_" not in name:
                    yield from _marks(value, 1 if name not in ("_parameters", "_buffers") else 2)
        for argument in self._arguments:
            yield from _marks(argument, _DEPTH)
        yield from _generators()


def _marks(value: Any, depth: int) -> Iterator[Any]:
    """The value itself and what shows that it was written to."""
    import torch

    if isinstance(value, torch.Tensor):
        yield weakref.ref(value)  # the same object as long as the tensor lives, and no reason for it to live longer
        yield None if value.is_inference() else value._version
        return
    yield value
    if isinstance(value, (list, tuple, dict, set)):
        yield len(value)
        if depth:
            for part in list(value.values() if isinstance(value, dict) else value)[:_ITEMS]:
                yield from _marks(part, depth - 1)
    elif depth and not isinstance(value, (*_PLAIN, type, torch.nn.Module)):
        for part in list(getattr(value, "__dict__", {}).values())[:_ITEMS]:
            yield from _marks(part, depth - 1)


def _generators() -> Iterator[bytes]:
    import torch

    yield bytes(torch.default_generator.get_state().tolist())
    cuda = sys.modules.get("torch.cuda")
    if cuda is not None and cuda.is_initialized():
        for index in range(cuda.device_count()):
            yield bytes(cuda.get_rng_state(index).tolist())


def _same(one: Any, other: Any) -> bool:
    return one is other or (isinstance(one, _PLAIN) and type(one) is type(other) and bool(one == other))
