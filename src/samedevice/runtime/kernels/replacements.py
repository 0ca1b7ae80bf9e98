"""Composite operators that C++ takes apart before any mode sees them, and that do for carriers what they do
not do on CUDA.

Must guarantee: real CPU tensors never reach a replacement; machines nest and share one registration, which
ends with the last. See Note [Attention below autograd's composite] for the two ways in which such an operator
is reached.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Mapping
from typing import Any

from torch._C import _parse_dispatch_key
from torch.library import Library

from samedevice.runtime.patching import Patches
from samedevice.runtime.state import engine

_COMPOSITE: Any = _parse_dispatch_key("CompositeImplicitAutograd")


class Replacements:
    """Functions in place of composite operators, for tensors that are meta to C++."""

    def __init__(self, functions: Mapping[Any, Callable[..., Any]]) -> None:
        self._functions = {op: _unless_raw(op, function) for op, function in functions.items()}
        self._lock = threading.Lock()
        self._machines = 0
        self._library: Library | None = None

    def install(self, patches: Patches) -> None:
        """Replace the operators until the patches are undone."""
        for op, function in self._functions.items():
            patches.item(op.py_kernels, _COMPOSITE, function)
        patches.call(self._enter, self._leave, f"dispatcher.{next(iter(self._functions))}")

    def _enter(self) -> None:
        with self._lock:
            self._machines += 1
            if self._library is None:
                self._library = Library("aten", "IMPL")  # type: ignore[no-untyped-call]  # torch's own
                for op, function in self._functions.items():
                    self._library.impl(op, function, "AutogradMeta")  # type: ignore[no-untyped-call]  # torch's own

    def _leave(self) -> None:
        with self._lock:
            self._machines -= 1
            if not self._machines and self._library is not None:
                self._library._destroy()  # type: ignore[no-untyped-call]  # torch's own
                self._library = None


def composite(op: Any, *args: Any, **kwargs: Any) -> Any:
    """The operator as C++ takes it apart."""
    return op._op_dk(_COMPOSITE, *args, **kwargs)


def _unless_raw(op: Any, function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def run(*args: Any, **kwargs: Any) -> Any:
        return composite(op, *args, **kwargs) if engine.raw else function(*args, **kwargs)

    return run
