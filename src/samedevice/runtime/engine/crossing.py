"""Gradients from a virtual GPU for real host memory, where one operator had taken tensors of both.

Real hardware refuses such an operator; the machine notes it, moves the operand and goes on. Backward then
computes a gradient on the GPU for a tensor of the host, and autograd, which compares C++'s devices after each
node, would refuse it with a text that no hardware prints. It does not compare what dispatches in Python, so
inside nodes that lead to real host memory gradients do.

Must guarantee: no tensor that a script holds is one of these; each arrives as a plain tensor on the device of
its variable.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import torch

from samedevice.runtime.state import as_torch, is_carrier

Tensor = torch.Tensor
_DETACH = torch.ops.aten.detach.default


class Passing(torch.Tensor):
    """A gradient that shares the memory of a plain one; every operator on it is run on that one."""

    plain: torch.Tensor
    arrive: ClassVar[Callable[[torch.Tensor, torch.Tensor], torch.Tensor]]
    """Makes a plain gradient what its variable has; set by `gradient_checks`, which knows transfers."""
    __torch_function__ = torch._C._disabled_torch_function_impl  # type: ignore[assignment]  # torch's own way to say so

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:  # type: ignore[override]  # torch types it as a plain method
        if func is _DETACH:
            # Older releases ask for a copy of each view that C++ gives out, by this operator, and the
            # engine's would be such a view again.
            with as_torch():
                result = _plain(args[0]).detach()
            result = passing(result)
        else:
            result = func(
                *[_plain(value) for value in args],
                **{name: _plain(value) for name, value in (kwargs or {}).items()},
            )
        variable = getattr(torch._C._current_autograd_node(), "variable", None)
        return (
            cls.arrive(_plain(result), variable)
            if isinstance(variable, Tensor) and isinstance(result, Tensor)
            else result
        )


def passing(result: Any) -> Any:
    """What an operator gave, as something that may pass autograd's comparison of devices."""
    if isinstance(result, Tensor):
        if type(result) is Passing or not is_carrier(result):
            return result
        with as_torch():
            made: Passing = torch.Tensor._make_subclass(Passing, result)
        made.plain = result
        return made
    if isinstance(result, (tuple, list)):
        return type(result)([passing(part) for part in result])
    return result


def passing_for(host: torch.Tensor, plain: torch.Tensor) -> torch.Tensor:
    """A carrier that autograd takes for a tensor of real host memory, as hooks may not change the kind."""
    with as_torch():
        made: Passing = torch.Tensor._make_subclass(Passing, host.detach())
    made.plain = plain
    return made


def leads_to_host(node: Any) -> bool:
    """Whether the node gives a gradient to real host memory."""
    return any(
        function is not None and function._input_metadata[position].device.type == "cpu"
        for function, position in node.next_functions
    )


def _plain(value: Any) -> Any:
    if type(value) is Passing:
        return value.plain
    if isinstance(value, (tuple, list)):
        return type(value)([_plain(part) for part in value])
    return value
