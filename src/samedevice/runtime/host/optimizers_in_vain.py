"""Optimizers that work in vain: whose parameters never have a gradient, or whose copies were made before.

It is told of an optimizer only where no step of it found a gradient, and a module in the variables of the
functions that step has gradients which no optimizer has: the program trains a copy, or what took the place of
the parameters. Must guarantee: nothing of the program changes; a step that finds a gradient costs one look at
each parameter until then.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

import torch
from torch.optim.optimizer import register_optimizer_step_pre_hook

from samedevice.events import InVain
from samedevice.provenance import FrameFilter, resolve
from samedevice.provenance.surroundings import modules_held, modules_in
from samedevice.runtime.host.outgrown_copies import OutgrownCopies

_FRAMES = 20


@dataclass(slots=True)
class _Watch:
    filter: FrameFilter
    working: weakref.WeakSet[Any] = field(default_factory=weakref.WeakSet)
    """Optimizers that had a gradient once."""
    idle: dict[int, tuple[InVain, frozenset[int]]] = field(default_factory=dict)
    """Those that had none, with the parameters that had gradients meanwhile, by their identity."""
    stepped: set[int] = field(default_factory=set)
    """Parameters of all optimizers that took a step, by their identity."""
    copies: OutgrownCopies = field(default_factory=OutgrownCopies)

    def before_step(self, optimizer: torch.optim.Optimizer, *_: Any) -> None:
        """Look for gradients, and where there is none, for those of others."""
        if self.copies.wants(optimizer):
            self.copies.before_step(optimizer, self._own(sys._getframe(1)))
        if optimizer in self.working:
            return
        own = [weight for group in optimizer.param_groups for weight in group["params"]]
        self.stepped |= {id(weight) for weight in own}
        if any(weight.grad is not None for weight in own):
            self.working.add(optimizer)
            self.idle.pop(id(optimizer), None)
        elif id(optimizer) not in self.idle:
            frame: FrameType | None = sys._getframe(1)
            site = self.filter.site(frame)
            place = None if site is None else resolve(site)
            graded = self._graded(frame)
            if place is not None and graded:
                self.idle[id(optimizer)] = InVain(type(optimizer).__name__, place), graded

    def _graded(self, frame: FrameType | None) -> frozenset[int]:
        """The parameters with gradients of the modules that the running functions hold."""
        frames = self._own(frame)
        return frozenset(
            id(weight)
            for module in [*modules_held(frames), *modules_in(frames)]
            for weight in module.parameters()
            if weight.grad is not None
        )

    def _own(self, frame: FrameType | None) -> list[FrameType]:
        """The running functions that are no library's."""
        frames: list[FrameType] = []
        while frame is not None and len(frames) < _FRAMES:
            if self.filter.own(frame.f_code.co_filename):
                frames.append(frame)
            frame = frame.f_back
        return frames

    def told(self) -> tuple[InVain, ...]:
        """Those that never had one, while what had some is no optimizer's; and copies that were outgrown."""
        idle = (each for each, graded in self.idle.values() if not graded & self.stepped)
        copies = (
            InVain(optimizer, at, name, device) for (name, device, optimizer), at in self.copies.found.items()
        )
        return (*idle, *copies)


@contextmanager
def watched(frame_filter: FrameFilter) -> Iterator[Callable[[], tuple[InVain, ...]]]:
    """Watch the optimizers' steps from now on; what is given returns what was in vain so far."""
    watch = _Watch(frame_filter)
    handle = register_optimizer_step_pre_hook(watch.before_step)
    try:
        yield watch.told
    finally:
        handle.remove()
