"""The strided tensors that a sparse tensor is made of.

C++ keeps indices and values as they were given, so on meta they are carriers: their memory is booked, has
values, and tells where the sparse tensor is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from samedevice.provenance.layouts import COLUMNS, PARTS, ROWS

READS_PARTS = frozenset(
    (
        *ROWS,
        *COLUMNS,
        "_indices",
        "_values",
        "indices",
        "_coalesced_",
        "is_coalesced",
        "_nnz",
        "detach",
        "alias",
    )
)
"""Operators that C++ answers from what it keeps, without computing."""

_aten = torch.ops.aten
MAKES_OF_PARTS = (
    _aten._sparse_coo_tensor_with_dims_and_tensors.default,
    _aten._sparse_compressed_tensor_unsafe.default,
    _aten.sparse_compressed_tensor.comp_plain_value_size,
    _aten.sparse_compressed_tensor.comp_plain_value,
)


def parts_of(tensor: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Indices and, last, values; nothing for a tensor that is not sparse."""
    names = PARTS.get(tensor.layout, ())
    if not names:
        return ()
    with torch._C._DisableTorchDispatch(), torch.no_grad():
        return tuple([getattr(tensor, name)().detach() for name in names])


def of_parts(parts: Sequence[torch.Tensor], like: torch.Tensor) -> torch.Tensor:
    """A sparse tensor with the shape and layout of another, over these parts."""
    device = parts[-1].device if not parts[-1].is_meta else torch.device("meta")
    options: dict[str, Any] = {"dtype": parts[-1].dtype, "layout": like.layout, "device": device}
    made: torch.Tensor
    with torch._C._DisableTorchDispatch(), torch.no_grad():
        if like.layout == torch.sparse_coo:
            dimensions = like.sparse_dim(), like.dense_dim(), like.size()
            coalesced = like.is_coalesced()
            made = MAKES_OF_PARTS[0](*dimensions, *parts, **options, is_coalesced=coalesced)
        else:
            made = MAKES_OF_PARTS[1](*parts, like.size(), **options)
    return made
