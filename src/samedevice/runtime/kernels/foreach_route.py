"""A profile names the kernel of a foreach operator that runs as one over all its tensors.

Must guarantee: a profile taken on a machine names `multi_tensor_apply_kernel` exactly where CUDA would run
it: an optimizer that fell off that route is slow, and a profile is where people look. No other kernel is
named, since none runs.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import torch

from samedevice.runtime.engine import FOREACH, Engine, Order, Proceed, one_kernel
from samedevice.runtime.patching import Patch, With
from samedevice.runtime.state import as_torch, current_machine, operator

KERNEL = "at::native::multi_tensor_apply_kernel"


class ForeachRoute:
    """One machine while profiles are taken."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._stop: Callable[[], None] | None = None
        self._inside = threading.local()
        """Has the operator that a thread runs: the machine may run its parts by themselves."""

    def begin(self) -> None:
        """A profile begins."""
        if self._stop is None:
            self._stop = self._engine.intercept(Order.WATCHED, self._see)

    def end(self) -> None:
        """It has ended."""
        if self._stop is not None:
            self._stop()
            self._stop = None

    def _see(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], proceed: Proceed) -> Any:
        op = operator(func)
        if not op.short.startswith(FOREACH) or hasattr(self._inside, "op"):
            return proceed(func, args, kwargs)
        with as_torch():
            one = one_kernel(op, args, kwargs)
        self._inside.op = op
        try:
            with torch._C._profiler._RecordFunctionFast(KERNEL) if one else nullcontext():
                return proceed(func, args, kwargs)
        finally:
            del self._inside.op


def _machine() -> ForeachRoute:
    return current_machine().part(ForeachRoute)


def _beginning(original: Any, machine: ForeachRoute) -> Callable[..., Any]:
    def enable(*args: Any, **kwargs: Any) -> Any:
        machine.begin()
        return original(*args, **kwargs)

    return enable


def _ending(original: Any, machine: ForeachRoute) -> Callable[..., Any]:
    def disable(*args: Any, **kwargs: Any) -> Any:
        machine.end()
        return original(*args, **kwargs)

    return disable


_WHY = "a profile names the one kernel whose choice is a rule of devices, types and strides"
PATCHES = (
    Patch("torch.autograd.profiler._enable_profiler", With(_machine, _beginning), _WHY),
    Patch("torch.autograd.profiler._disable_profiler", With(_machine, _ending), _WHY),
)
