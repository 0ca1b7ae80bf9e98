"""Optimizers whose steps do nothing: none of their parameters ever has a gradient.

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

from samedevice.events import Place
from samedevice.provenance import FrameFilter, resolve
from samedevice.provenance.surroundings import modules_held, modules_in

_FRAMES = 20
Idle = tuple[str, Place]
"""The class of an optimizer, and where it steps."""


@dataclass(slots=True)
class _Watch:
    filter: FrameFilter
    working: weakref.WeakSet[Any] = field(default_factory=weakref.WeakSet)
    """Optimizers that had a gradient once."""
    idle: dict[int, tuple[Idle, frozenset[int]]] = field(default_factory=dict)
    """Those that had none, with the parameters that had gradients meanwhile, by their identity."""
    stepped: set[int] = field(default_factory=set)
    """Parameters of all optimizers that took a step, by their identity."""

    def before_step(self, optimizer: torch.optim.Optimizer, *_: Any) -> None:
        """Look for gradients, and where there is none, for those of others."""
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
                self.idle[id(optimizer)] = (type(optimizer).__name__, place), graded

    def _graded(self, frame: FrameType | None) -> frozenset[int]:
        """The parameters with gradients of the modules that the running functions hold."""
        frames: list[FrameType] = []
        while frame is not None and len(frames) < _FRAMES:
            if self.filter.own(frame.f_code.co_filename):
                frames.append(frame)
            frame = frame.f_back
        return frozenset(
            id(weight)
            for module in [*modules_held(frames), *modules_in(frames)]
            for weight in module.parameters()
            if weight.grad is not None
        )

    def told(self) -> tuple[Idle, ...]:
        """Those that never had one, while what had some is no optimizer's."""
        return tuple(idle for idle, graded in self.idle.values() if not graded & self.stepped)


@contextmanager
def watched(frame_filter: FrameFilter) -> Iterator[Callable[[], tuple[Idle, ...]]]:
    """Watch the optimizers' steps from now on; what is given returns those that did nothing so far."""
    watch = _Watch(frame_filter)
    handle = register_optimizer_step_pre_hook(watch.before_step)
    try:
        yield watch.told
    finally:
        handle.remove()
