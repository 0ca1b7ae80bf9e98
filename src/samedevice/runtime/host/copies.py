"""Counts what a run copies between devices, and what it copies again though nothing of it has changed.

Must guarantee: nothing of the program changes, and no tensor lives longer than without; a machine that counts
nothing pays nothing.

A copy is made again where the same statement sends the same memory to the same device once more and nothing
was written to it since; of a weight in every case, since a step of the optimizer writes to it.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch

from samedevice.provenance import Site
from samedevice.runtime.engine import Engine, Order, Proceed
from samedevice.runtime.state import MachineState, aten, device_of, storage_of
from samedevice.timeline import Copies

_COPIES = (aten._to_copy.default, aten.copy_.default)
Way = tuple[Site | None, str, int, int]
"""A statement, the device that it copies to, where in the memory, and after how many writes."""


@dataclass(slots=True)
class _Counting:
    engine: Engine
    counted: Copies = field(default_factory=Copies)
    seen: dict[int, tuple[weakref.ref[Any], set[Way]]] = field(default_factory=dict)
    """What was copied before, by the identity of its memory."""

    def see(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], proceed: Proceed) -> Any:
        """Run an operator, and count it where it copies between devices."""
        result = proceed(func, args, kwargs)
        if func in _COPIES:
            source, target = (args[0], result) if func is _COPIES[0] else (args[1], args[0])
            if isinstance(source, torch.Tensor) and isinstance(target, torch.Tensor):
                self._copied(source, target)
        return result

    def _copied(self, source: torch.Tensor, target: torch.Tensor) -> None:
        home, goal = str(device_of(source)), str(device_of(target))
        if home == goal or "meta" in (home, goal) or source.layout is not torch.strided:
            return
        nbytes = target.numel() * target.element_size()
        known = self._known(storage_of(source))
        weight = source.requires_grad and source.is_leaf
        writes = 0 if weight or source.is_inference() else source._version
        way = (self.engine.tracker.site(), goal, int(source.storage_offset()), writes)
        again = way in known
        known.add(way)
        self.counted = self.counted.with_one(nbytes, again)

    def _known(self, storage: Any) -> set[Way]:
        held = self.seen.get(id(storage))
        if held is not None and held[0]() is storage:
            return held[1]
        ways: set[Way] = set()
        self.seen[id(storage)] = weakref.ref(storage), ways
        return ways


@contextmanager
def counted(state: MachineState) -> Iterator[Callable[[], Copies]]:
    """Count what the entered machine copies from now on; what is given returns the numbers so far."""
    counting = _Counting(state.part(Engine))
    with _intercepted(counting):
        yield lambda: counting.counted


@contextmanager
def _intercepted(counting: _Counting) -> Iterator[None]:
    remove = counting.engine.intercept(Order.WATCHED, counting.see)
    try:
        yield
    finally:
        remove()
