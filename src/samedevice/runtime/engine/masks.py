"""Masks as indices: what `x[mask]` chooses is known before its shape is asked for.

Must guarantee: a mask that does not fit the indexed tensor is refused in torch's words, and never chooses
anything.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import torch

from samedevice.runtime.state import Call, caller, memory_of, tensors_in
from samedevice.runtime.tracking import Tracker, record_of, to_value

_BYTES_ARE_DEPRECATED = (
    "indexing with dtype torch.uint8 is now deprecated, please use a dtype torch.bool instead."
)


def masks_to_indices(tracker: Tracker, call: Call) -> None:
    """Boolean masks decide the shape of `x[mask]`: put the indices that they stand for in their place."""
    indices = call.args[1]
    if not any(index is not None and index.dtype in (torch.bool, torch.uint8) for index in indices):
        return
    indexed = call.args[0].size()
    expanded: list[Any] = []
    for index in indices:
        if index is None or index.dtype not in (torch.bool, torch.uint8):
            expanded.append(index)
            continue
        if index.dtype is torch.uint8:
            frame = caller()
            warnings.warn_explicit(
                _BYTES_ARE_DEPRECATED, UserWarning, frame.f_code.co_filename, frame.f_lineno
            )
        _check_shape(index.size(), indexed, len(expanded))
        positions = to_value(index).nonzero(as_tuple=True)
        record = memory_of(index)
        assumed = record is not None and record.uncomputed
        expanded.extend(
            tracker.with_value(position, call.home, None, assumed=assumed) for position in positions
        )
    call.args = (call.args[0], expanded, *call.args[2:])
    call.tensors = [tensor for value in call.args for tensor in tensors_in(value)]
    call.records = [record_of(tensor) for tensor in call.tensors]


def _check_shape(mask: Sequence[int], indexed: Sequence[int], start: int) -> None:
    """Source: aten/src/ATen/native/IndexingUtils.h, expandTensors.

    Too many dimensions are refused later, by the operator itself.
    """
    for position, size in enumerate(mask):
        if start + position < len(indexed) and size != indexed[start + position]:
            raise IndexError(
                f"The shape of the mask {list(mask)} at index {position} does not match the shape of the "
                f"indexed tensor {list(indexed)} at index {start + position}"
            )
