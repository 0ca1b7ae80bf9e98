"""Matrix products with `out_dtype=`: torch has kernels for them on GPUs only.

Must guarantee: what is multiplied in half precision is added up in the wider type and never rounded between,
as cuBLAS does. On meta tensors they tell shapes and types. Source: aten/src/ATen/native/cuda/Blas.cpp,
_mm_dtype_out_cuda, _addmm_dtype_out_cuda, _bmm_out_dtype_cuda, _baddbmm_out_dtype_cuda.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch

Tensor = torch.Tensor
aten = torch.ops.aten


def _product(multiply: Callable[..., Tensor], one: Tensor, other: Tensor, dtype: torch.dtype) -> Tensor:
    return multiply(one.to(dtype), other.to(dtype))


def _sum_of_products(
    multiply: Callable[..., Tensor],
    beside: Tensor,
    one: Tensor,
    other: Tensor,
    dtype: torch.dtype,
    *,
    beta: Any = 1,
    alpha: Any = 1,
) -> Tensor:
    return multiply(beside.to(dtype), one.to(dtype), other.to(dtype), beta=beta, alpha=alpha)


def _into(compute: Callable[..., Tensor], *given: Any, out: Tensor, **options: Any) -> Tensor:
    found = compute(*given, **options)
    if out.size() != found.size():
        out.resize_(found.size())
    return out.copy_(found)


def _rows() -> dict[Any, Callable[..., Tensor]]:
    computed = {
        "mm": partial(_product, torch.mm),
        "bmm": partial(_product, torch.bmm),
        "addmm": partial(_sum_of_products, torch.addmm),
        "baddbmm": partial(_sum_of_products, torch.baddbmm),
    }
    found: dict[Any, Callable[..., Tensor]] = {}
    for name, compute in computed.items():
        packet = getattr(aten, name)
        if "dtype" in packet.overloads():  # torch 2.8
            found |= {packet.dtype: compute, packet.dtype_out: partial(_into, compute)}
    return found


WIDE_PRODUCTS = _rows()
WITHOUT_SHAPES = {op: compute for op, compute in WIDE_PRODUCTS.items() if "baddbmm" in str(op)}
"""Those for which torch's meta function takes the type for a factor."""

__all__ = ["WIDE_PRODUCTS", "WITHOUT_SHAPES"]
