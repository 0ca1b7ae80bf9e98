"""Replacements of composite operators, which C++ takes apart otherwise for virtual tensors than on CUDA.

No mode sees such an operator before it is taken apart.

Must guarantee: real CPU tensors never reach a replacement. See Note [Attention below autograd's composite]
for the two ways in which such an operator is reached.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from operator import attrgetter
from typing import Any

from torch._C import _parse_dispatch_key
from torch.library import Library

from samedevice.runtime.kernels.registrations import Registration
from samedevice.runtime.patching import Change, Constant, Entry
from samedevice.runtime.state import this_thread

_COMPOSITE: Any = _parse_dispatch_key("CompositeImplicitAutograd")


def replaced(functions: Mapping[Any, Callable[..., Any]], why: str) -> tuple[Entry | Change, ...]:
    """The rows that put functions in place of composite operators, for tensors that are meta to C++."""
    found = {op: _unless_raw(op, function) for op, function in functions.items()}

    def fill(library: Library) -> None:
        for op, function in found.items():
            library.impl(op, function, "AutogradMeta")  # type: ignore[no-untyped-call]  # torch's own

    registration = Registration(fill)
    return (
        *(
            Entry(
                f"torch.ops.{op}.py_kernels[CompositeImplicitAutograd]",
                functools.partial(attrgetter("py_kernels"), op),
                _COMPOSITE,
                Constant(function),
                why,
            )
            for op, function in found.items()
        ),
        Change(
            f"dispatcher[AutogradMeta] of {', '.join(map(str, found))}",
            registration.enter,
            registration.leave,
            ", ".join(dict.fromkeys(f"`{function.__name__}`" for function in found.values())),
            why,
        ),
    )


def composite(op: Any, *args: Any, **kwargs: Any) -> Any:
    """The operator as C++ takes it apart."""
    return op._op_dk(_COMPOSITE, *args, **kwargs)


def _unless_raw(op: Any, function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def run(*args: Any, **kwargs: Any) -> Any:
        return composite(op, *args, **kwargs) if this_thread.raw else function(*args, **kwargs)

    return run
