"""Gradients of what selects values: they are added into zeros in place, as on a GPU.

`index_select_backward`, `gather_backward` and `value_selecting_reduction_backward` are composites that add
out of place where a dispatch mode is active, which takes the gradient's memory twice
(`aten/src/ATen/native/TensorAdvancedIndexing.cpp`, `ReduceOps.cpp`). See Note [Attention below autograd's
composite] for how a composite is replaced.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from samedevice.runtime.kernels.replacements import composite, replaced
from samedevice.runtime.tensors import seen_device

Tensor = torch.Tensor
aten = torch.ops.aten
_selected = aten.index_select_backward.default
_gathered = aten.gather_backward.default
_reduced = aten.value_selecting_reduction_backward.default


def _plain(gradient: torch.Tensor) -> bool:
    """Whether nobody differentiates the gradient, and it is on a GPU."""
    return not torch.is_grad_enabled() and seen_device(gradient).type == "cuda"


def select_backward(
    grad: torch.Tensor, self_sizes: Sequence[int], dim: int, index: torch.Tensor
) -> torch.Tensor:
    """`aten::index_select_backward`."""
    if not _plain(grad):
        found: torch.Tensor = composite(_selected, grad, self_sizes, dim, index)
        return found
    return grad.new_zeros(self_sizes).index_add_(dim, index, grad)


def gather_backward(
    grad: torch.Tensor, self: torch.Tensor, dim: int, index: torch.Tensor, sparse_grad: bool
) -> torch.Tensor:
    """`aten::gather_backward`."""
    if sparse_grad or not _plain(grad):
        found: torch.Tensor = composite(_gathered, grad, self, dim, index, sparse_grad)
        return found
    return grad.new_zeros(self.size()).scatter_add_(dim, index, grad)


def reduction_backward(
    grad: torch.Tensor, dim: int, indices: torch.Tensor, sizes: Sequence[int], keepdim: bool
) -> torch.Tensor:
    """`aten::value_selecting_reduction_backward`."""
    if not _plain(grad):
        found: torch.Tensor = composite(_reduced, grad, dim, indices, sizes, keepdim)
        return found
    if not keepdim and sizes:
        grad, indices = grad.unsqueeze(dim), indices.unsqueeze(dim)
    return grad.new_zeros(sizes).scatter_(dim, indices, grad)


PATCHES = replaced(
    {_selected: select_backward, _gathered: gather_backward, _reduced: reduction_backward},
    "under a mode C++ adds out of place, and would take the memory of the gradient twice",
)
