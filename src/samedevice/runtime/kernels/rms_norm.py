"""RMS norm on virtual GPUs runs as one kernel, as on CUDA.

Only CUDA has a kernel for `aten::_fused_rms_norm`; every other device takes it apart, and so would carriers,
with a float32 copy of the input (`aten/src/ATen/native/layer_norm.cpp`, `cuda/layer_norm_kernel.cu`). With a
meta kernel here autograd has its own derivative, whose numbers the CPU's arithmetic gives.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.library import Library

from samedevice.runtime.kernels.registrations import Registration
from samedevice.runtime.patching import Change

Tensor = torch.Tensor
aten = torch.ops.aten


def _shapes(
    input: torch.Tensor, normalized_shape: Sequence[int], weight: torch.Tensor | None, eps: float | None
) -> tuple[torch.Tensor, torch.Tensor]:
    kept = input.dim() - len(normalized_shape)
    rows = (*input.shape[:kept], *(1 for _ in normalized_shape))
    wide = torch.float64 if input.dtype == torch.float64 else torch.float32
    return torch.empty_like(input, memory_format=torch.contiguous_format), input.new_empty(rows, dtype=wide)


def _backward(
    grad_out: torch.Tensor,
    input: torch.Tensor,
    normalized_shape: Sequence[int],
    rstd: torch.Tensor,
    weight: torch.Tensor | None,
    output_mask: Sequence[bool],
) -> tuple[torch.Tensor | None, torch.Tensor | None]:
    count = len(normalized_shape)
    last = tuple(range(-count, 0))
    normed = input.to(rstd.dtype) * rstd
    gradient = grad_out.to(rstd.dtype)
    weighted = gradient if weight is None else gradient * weight
    of_input = rstd * (weighted - normed * (weighted * normed).mean(last, keepdim=True))
    of_weight = None
    if output_mask[1] and weight is not None:
        rows = list(range(input.dim() - count))
        product = gradient * normed
        of_weight = (product.sum(rows) if rows else product).to(weight.dtype)
    return (of_input.to(input.dtype) if output_mask[0] else None), of_weight


def _fill(library: Library) -> None:
    if hasattr(aten, "_fused_rms_norm_backward"):
        # `impl` refuses meta kernels of composites: elsewhere they are right to decompose.
        made: Any = library.m
        made.impl("aten::_fused_rms_norm", "Meta", _shapes, False)
        library.impl(aten._fused_rms_norm_backward.default, _backward, "CPU")  # type: ignore[no-untyped-call]  # torch's own


_kernels = Registration(_fill)
PATCHES = (
    Change(
        "dispatcher[Meta] of aten._fused_rms_norm, dispatcher[CPU] of aten._fused_rms_norm_backward",
        _kernels.enter,
        _kernels.leave,
        "shapes of the fused kernel; the numbers of its gradients",
        "carriers would take RMS norm apart, with a float32 copy of the input",
    ),
)
