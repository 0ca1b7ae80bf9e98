"""Weights of a model that is tried: drawn and copied only where somebody can see their values.

Must guarantee: a copy computes and is placed as the model would be, and leaves the model as it is. A weight
whose values no virtual GPU holds is zero instead of random, and no run can tell.
"""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable, Iterator
from typing import Any

_DRAWS = ("normal_", "uniform_", "erfinv_")
"""What initialization spends its time with; the last is half of a truncated normal distribution."""


@contextlib.contextmanager
def large_undrawn() -> Iterator[None]:
    """What is too large to have values on a virtual GPU becomes zero where it would be drawn."""
    import torch

    from samedevice.runtime.state import VALUE_LIMIT

    zeros: dict[int, tuple[Any, int]] = {}
    """Tensors that are zero already, with their versions; most are drawn twice."""

    def zero_if_large(draw: Callable[..., Any]) -> Callable[..., Any]:
        def drawn(tensor: Any, *args: Any, **kwargs: Any) -> Any:
            if tensor.numel() * tensor.element_size() <= VALUE_LIMIT or tensor.device.type != "cpu":
                return draw(tensor, *args, **kwargs)
            if id(tensor) not in zeros or zeros[id(tensor)][1] != tensor._version:
                tensor.zero_()
                zeros[id(tensor)] = tensor, tensor._version
            return tensor

        return drawn

    with contextlib.ExitStack() as stack:
        for name in _DRAWS:
            own = vars(torch.Tensor).get(name)
            setattr(torch.Tensor, name, zero_if_large(getattr(torch.Tensor, name)))
            if own is None:
                stack.callback(delattr, torch.Tensor, name)
            else:
                stack.callback(setattr, torch.Tensor, name, own)
        yield


def copied(model: Any) -> Any:
    """A fresh copy that shares the memory of a module's weights, for where all of them go to a GPU."""
    import torch

    memo = {}
    for weight in model.parameters() if isinstance(model, torch.nn.Module) else ():
        if type(weight) is torch.nn.Parameter and not vars(weight):
            memo[id(weight)] = torch.nn.Parameter(weight.detach(), weight.requires_grad)
    return copy.deepcopy(model, memo)
