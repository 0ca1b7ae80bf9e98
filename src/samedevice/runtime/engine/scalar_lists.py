"""Foreach operators whose scalars come in a tensor, which every kernel reads on the host.

Source: `convert_tensor_to_scalar_list` of aten/src/ATen/native/ForeachOpsKernels.cpp.
"""

from __future__ import annotations

from typing import Any

import torch

from samedevice.events import EventKind
from samedevice.runtime.state import CPU, Operator, caller, device_of
from samedevice.runtime.tracking import Tracker, to_value

_aten = torch.ops.aten
WITH_LIST: dict[Any, Any] = {
    _aten._foreach_addcdiv.Tensor: _aten._foreach_addcdiv.ScalarList,
    _aten._foreach_addcdiv_.Tensor: _aten._foreach_addcdiv_.ScalarList,
    _aten._foreach_addcmul.Tensor: _aten._foreach_addcmul.ScalarList,
    _aten._foreach_addcmul_.Tensor: _aten._foreach_addcmul_.ScalarList,
}
"""The overload that each of them calls with the numbers."""


def scalars_in(tracker: Tracker, op: Operator, args: tuple[Any, ...]) -> list[Any]:
    """The numbers in the last argument, checked as C++ checks them."""
    first, *_, scalars = args
    where = device_of(scalars)
    if where != CPU:
        tracker.recorder.refused(
            EventKind.MISMATCH,
            str(op.func),
            f"Expected scalars to be on CPU, got {where} instead.",
            [("self", first[0], False), ("scalars", scalars, False)],
            [device_of(first[0]), where],
            caller(),
        )
    if not scalars.is_contiguous():
        raise RuntimeError("Expected scalars to be contiguous.")
    if scalars.dim() != 1:
        raise RuntimeError(
            f"Expected packed scalar Tensor to be of dimension 1. Got {scalars.dim()} instead."
        )
    if len(scalars) != len(first):
        raise RuntimeError(
            f"Expected length of scalars to match input of length {len(first)} but got {len(scalars)} "
            "instead."
        )
    numbers: list[Any] = to_value(scalars).tolist()
    return numbers
