"""What sees an operator before the engine runs it, in an order that does not depend on who came first."""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from typing import Any, Protocol

from samedevice.runtime.state import Operator

Proceed = Callable[[Any, tuple[Any, ...], dict[str, Any]], Any]
"""Takes an operator, its arguments and its keywords, and runs it as if nobody had looked."""
Interceptor = Callable[[Any, tuple[Any, ...], dict[str, Any], Proceed], Any]
"""Gives the result of an operator: its own, or what `Proceed` gives."""


class Order(IntEnum):
    """Who sees an operator first."""

    REAL = -2
    """A tensor on a real GPU is refused."""
    WATCHED = -1
    """Somebody records the run."""
    FORKED = 0
    """A forked process refuses CUDA's kernels."""
    CAPTURED = 1
    """A CUDA graph is captured."""


class Collective(Protocol):
    """Runs operators that reach other processes."""

    def takes(self, op: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        """Whether a call concerns the machine."""

    def run(self, op: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run it."""
