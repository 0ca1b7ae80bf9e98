"""Dropout on virtual GPUs keeps what CUDA's keeps: a mask of one byte an element.

`aten::dropout` is a composite that calls `native_dropout` for CUDA tensors only (`is_fused_kernel_acceptable`
in `aten/src/ATen/native/Dropout.cpp`); carriers would get a mask in their own type. See Note [Attention below
autograd's composite] for how a composite is replaced.
"""

from __future__ import annotations

import torch

from samedevice.runtime.kernels.replacements import composite, replaced
from samedevice.runtime.tensors import seen_device

_dropout = torch.ops.aten.dropout.default


def drop(input: torch.Tensor, p: float, train: bool) -> torch.Tensor:
    """`aten::dropout` where the tensor is a carrier."""
    if not train or not 0.0 < p < 1.0 or input.numel() == 0 or seen_device(input).type != "cuda":
        plain: torch.Tensor = composite(_dropout, input, p, train)
        return plain
    kept: torch.Tensor = torch.ops.aten.native_dropout.default(input, p, train)[0]
    return kept


PATCHES = replaced(
    {_dropout: drop},
    "the mask of a carrier would have the tensor's type, and CUDA's has one byte an element",
)
