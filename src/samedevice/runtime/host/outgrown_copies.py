"""Copies of a parameter on another device that are older than the last step of its optimizer.

`z = z.to("cuda:0")` after the optimizer got `z`: each backward still reaches the parameter, each step changes
it, and what the program computes with keeps its first values. It is told where a copy of a parameter of the
optimizer is in a variable, or in an attribute of `self`, over two of its steps, a gradient went through it in
between, and the parameter is another by then. Must guarantee: nothing of the program changes; only the
first steps of an optimizer are looked at.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator, MutableMapping
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

import torch
from torch.utils.weak import WeakIdKeyDictionary

from samedevice.events import Place
from samedevice.provenance import resolve
from samedevice.runtime.state import Memory, device_of
from samedevice.runtime.tracking import record_of

_STEPS = 3
"""Steps of an optimizer that are looked at."""


@dataclass(slots=True)
class _Copy:
    version: int
    """Of the parameter, when the copy was met first."""
    used: bool = False
    """Whether a gradient has gone through it since."""

    def use(self, *_: Any) -> None:
        """A hook of the graph."""
        self.used = True


@dataclass(slots=True)
class OutgrownCopies:
    """Looks at an optimizer's steps, and keeps what it finds."""

    found: dict[tuple[str, str, str], Place] = field(default_factory=dict)
    """(variable, device, class of the optimizer), with the line that made the copy."""
    _met: MutableMapping[torch.Tensor, _Copy] = field(default_factory=WeakIdKeyDictionary)
    _steps: weakref.WeakKeyDictionary[Any, int] = field(default_factory=weakref.WeakKeyDictionary)

    def wants(self, optimizer: torch.optim.Optimizer) -> bool:
        """Whether this step of it is looked at."""
        return self._steps.get(optimizer, 0) < _STEPS

    def before_step(self, optimizer: torch.optim.Optimizer, frames: list[FrameType]) -> None:
        """Look for copies of the optimizer's parameters in the variables of functions."""
        self._steps[optimizer] = self._steps.get(optimizer, 0) + 1
        own = {id(weight) for group in optimizer.param_groups for weight in group["params"]}
        for name, tensor in _variables(frames):
            weight = _copied(tensor)
            if weight is None or id(weight) not in own:
                continue
            known = self._met.get(tensor)
            if known is None:
                known = self._met[tensor] = _Copy(weight._version)
                assert tensor.grad_fn is not None
                tensor.grad_fn.register_prehook(known.use)
            elif known.used and weight._version != known.version:
                record = record_of(tensor)
                place = resolve(record.moved) if isinstance(record, Memory) else None
                if place is not None:
                    key = name, str(device_of(tensor)), type(optimizer).__name__
                    self.found.setdefault(key, place)


def _copied(tensor: torch.Tensor) -> torch.Tensor | None:
    """The leaf of which a tensor is a copy on another device: nothing else has one input elsewhere."""
    made: Any = tensor.grad_fn
    if made is None or len(made.next_functions) != 1:
        return None
    leaf: torch.Tensor | None = getattr(made.next_functions[0][0], "variable", None)
    return leaf if leaf is not None and device_of(leaf) != device_of(tensor) else None


def _variables(frames: list[FrameType]) -> Iterator[tuple[str, torch.Tensor]]:
    """Tensors in the variables of functions, and in the attributes of their `self`."""
    for frame in frames:
        values = dict(frame.f_locals)
        yield from _tensors(values, "")
        yield from _tensors(getattr(values.get("self"), "__dict__", {}), "self.")


def _tensors(values: dict[str, Any], prefix: str) -> Iterator[tuple[str, torch.Tensor]]:
    for name, value in list(values.items()):
        if isinstance(value, torch.Tensor):
            yield f"{prefix}{name}", value
