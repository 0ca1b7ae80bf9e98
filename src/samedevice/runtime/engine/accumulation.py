"""Gradients of one tensor that come from several places are added in place, as without a mode.

Note [Sums of gradients]
Autograd's `InputBuffer::accumulate` (`torch/csrc/autograd/input_buffer.cpp`) adds into the gradient that came
first when it holds the last reference to it; when a dispatch mode is active it makes a third tensor instead,
which a GPU would never hold. So an addition in a backward whose first operand belongs to nobody else is done
in place. Nobody can see the difference but the ledger. What "nobody else" looks like from Python is not
written anywhere: one addition that is known to come from there tells.
"""

from __future__ import annotations

import sys
from functools import cache
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

from samedevice.runtime.state import Memory, memory_of, storage_of

aten = torch.ops.aten

Counts = tuple[int, int, int]


def _counts(tensor: torch.Tensor) -> Counts:
    """References to a tensor, to its memory, and to its Python object."""
    uses: int = tensor._use_count()  # type: ignore[attr-defined] # not in torch's stub
    return uses, torch._C._storage_Use_Count(storage_of(tensor)._cdata), sys.getrefcount(tensor)


@cache
def alone() -> Counts:
    """The counts of a gradient that only autograd's buffer holds."""
    seen: list[Counts] = []

    class Probe(TorchDispatchMode):  # type: ignore[no-untyped-call] # torch has no types there
        @classmethod
        def _should_skip_dynamo(cls) -> bool:
            """No: torch would import all of Dynamo to put a function around this one, which counts, too."""
            return False

        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if func is aten.add.Tensor and torch._C._current_graph_task_id() != -1:
                seen.append(_first_counts(args))
            return func(*args, **(kwargs or {}))

    with _disable_current_modes(), torch.enable_grad():
        leaf = torch.ones(2, requires_grad=True)
        middle = leaf * 1.0
        with Probe():  # type: ignore[no-untyped-call] # torch has no types there
            torch.autograd.grad((middle * 2.0 + middle * 3.0).sum(), leaf)
    return seen[0] if seen else (0, 0, 0)


def _first_counts(args: Any) -> Counts:
    return _counts(args[0])


def may_add_in_place(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether `aten.add.Tensor` is such a sum.

    It is asked for every addition, so what rules most of them out comes first.
    """
    if torch._C._current_graph_task_id() == -1 or kwargs or len(args) != 2 or torch.is_grad_enabled():
        return False
    first, second = args
    if (
        not isinstance(second, torch.Tensor)
        or first.layout is not torch.strided
        or second.layout is not torch.strided
    ):
        return False
    if first.shape != second.shape or first.dtype != second.dtype or not first.is_contiguous():
        return False
    mine, other = memory_of(first), memory_of(second)
    if not (_held(mine) and _held(other)) or mine.device != other.device:  # type: ignore[union-attr] # held ones are there
        return False
    del first, second
    return all(found <= expected for found, expected in zip(_first_counts(args), alone(), strict=True))


def _held(record: Memory | None) -> bool:
    return record is not None and record.virtual and not record.loose
