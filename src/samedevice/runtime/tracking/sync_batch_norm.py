"""The operators of `SyncBatchNorm`: torch has kernels for them on GPUs only.

Must guarantee: on host values they compute what CUDA's kernels compute, statistics in the type that CUDA
accumulates in, so that ranks together get what one batch norm over their whole batch gets. On meta tensors
they tell shapes and types. Source: aten/src/ATen/native/cuda/Normalization.cuh.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

Tensor = torch.Tensor
aten = torch.ops.aten


def _wide(tensor: Tensor) -> Tensor:
    return tensor if tensor.dtype == torch.float64 else tensor.float()


def _over_channels(input: Tensor) -> list[int]:
    return [dim for dim in range(input.dim()) if dim != 1]


def _along(channels: Tensor, input: Tensor) -> Tensor:
    """One number per channel in a shape that spreads over `input`."""
    return _wide(channels).view([1, -1] + [1] * (input.dim() - 2))


def stats(input: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    """Mean and inverse standard deviation of each channel."""
    variance, mean = torch.var_mean(_wide(input), _over_channels(input), correction=0)
    return mean, (variance + eps).rsqrt()


def gather_stats(
    input: Tensor,
    mean: Tensor,
    invstd: Tensor,
    running_mean: Any,
    running_var: Any,
    momentum: float,
    eps: float,
    counts: Tensor,
) -> tuple[Tensor, Tensor]:
    """Statistics of all ranks from those of each, and the running ones with them."""
    each, mean, invstd = counts.to(mean.dtype).view(-1, 1), _wide(mean), _wide(invstd)
    total = each.sum()
    whole = (each * mean).sum(0) / total
    squares = (each * (invstd.pow(-2) - eps + (mean - whole).square())).sum(0)
    if running_mean is not None:
        running_mean.mul_(1 - momentum).add_(momentum * whole)
    if running_var is not None:
        running_var.mul_(1 - momentum).add_(momentum * squares / (total - 1))
    return whole, (squares / total + eps).rsqrt()


def gather_stats_of_equal_counts(
    input: Tensor,
    mean: Tensor,
    invstd: Tensor,
    running_mean: Any,
    running_var: Any,
    momentum: float,
    eps: float,
    count: int,
) -> tuple[Tensor, Tensor]:
    """The same where every rank has `count` numbers per channel."""
    counts = torch.full((mean.size(0),), count, dtype=mean.dtype, device=mean.device)
    return gather_stats(input, mean, invstd, running_mean, running_var, momentum, eps, counts)


def elementwise(input: Tensor, weight: Any, bias: Any, mean: Tensor, invstd: Tensor, eps: float) -> Tensor:
    """The normalized input."""
    result = (_wide(input) - _along(mean, input)) * _along(invstd, input)
    if weight is not None:
        result = result * _along(weight, input)
    if bias is not None:
        result = result + _along(bias, input)
    return result.to(input.dtype)


def backward_reduce(
    grad_out: Tensor,
    input: Tensor,
    mean: Tensor,
    invstd: Tensor,
    weight: Any,
    input_g: bool,
    weight_g: bool,
    bias_g: bool,
) -> tuple[Any, Any, Any, Any]:
    """Sums that the ranks add up, and the gradients of weight and bias."""
    gradient = _wide(grad_out)
    summed = gradient.sum(_over_channels(input))
    spread = (gradient * (_wide(input) - _along(mean, input))).sum(_over_channels(input))
    dtype = mean.dtype if weight is None else weight.dtype
    return (
        summed if input_g else None,
        spread if input_g else None,
        (spread * invstd).to(dtype) if weight_g else None,
        summed.to(dtype, copy=True) if bias_g else None,
    )


def backward_elementwise(
    grad_out: Tensor,
    input: Tensor,
    mean: Tensor,
    invstd: Tensor,
    weight: Any,
    sum_dy: Tensor,
    sum_dy_xmu: Tensor,
    count: Tensor,
) -> Tensor:
    """The gradient of the input."""
    total = count.sum().to(sum_dy.dtype)
    slope = _along(invstd.square() * sum_dy_xmu / total, input)
    scale = invstd if weight is None else _wide(weight) * invstd
    centred = _wide(input) - _along(mean, input)
    return ((_wide(grad_out) - _along(sum_dy / total, input) - centred * slope) * _along(scale, input)).to(
        input.dtype
    )


SYNC_BATCH_NORM: dict[Any, Callable[..., Any]] = {
    aten.batch_norm_stats.default: stats,
    aten.batch_norm_gather_stats_with_counts.default: gather_stats,
    aten.batch_norm_gather_stats.default: gather_stats_of_equal_counts,
    aten.batch_norm_elemt.default: elementwise,
    aten.batch_norm_backward_reduce.default: backward_reduce,
    aten.batch_norm_backward_elemt.default: backward_elementwise,
}
"""What computes values and shapes of these operators."""
