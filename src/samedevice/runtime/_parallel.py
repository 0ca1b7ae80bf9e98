"""Single-process data parallelism (`nn.DataParallel`, `torch.nn.parallel.comm`) on virtual GPUs.

Must guarantee: what torch's C++ does in `torch/csrc/cuda/comm.cpp`, by ordinary tensor operators, so that the engine sees
every transfer. torch's own Python around it stays as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.cuda.nccl
import torch.nn.parallel._functions

from samedevice.errors import UnsupportedFeatureError
from samedevice.runtime._build import NCCL_VERSION
from samedevice.runtime._patches import Patches
from samedevice.runtime._state import CPU, current_state


def _gpu(index: int) -> torch.device:
    if index < 0:
        raise RuntimeError(f"Expected non-negative device index, but got {index}")
    return current_state().cuda(index)


def _broadcast(tensor: torch.Tensor, devices: Sequence[int]) -> list[torch.Tensor]:
    return [tensor.to(_gpu(index), non_blocking=True) for index in devices]


def _broadcast_out(tensor: torch.Tensor, out: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    for position, target in enumerate(out):
        if not target.is_cuda:
            raise RuntimeError(
                f"Expected all output tensors to be CUDA tensors, but output tensor at index {position} is on {target.device}"
            )
        if target.shape != tensor.shape:
            raise RuntimeError(
                f"Expected all output tensors to have same shape as the source tensor {list(tensor.shape)}, "
                f"but output tensor at index {position} has shape {list(target.shape)}"
            )
        target.copy_(tensor, non_blocking=True)
    return list(out)


def _broadcast_coalesced(tensors: Sequence[torch.Tensor], devices: Sequence[int], buffer_size: int) -> list[list[torch.Tensor]]:
    first = _gpu(devices[0])
    if any(tensor.device != first for tensor in tensors):
        raise RuntimeError("all tensors must be on devices[0]")
    return [list(tensors), *([tensor.to(_gpu(index), non_blocking=True) for tensor in tensors] for index in devices[1:])]


def _scatter(
    tensor: torch.Tensor,
    devices: Sequence[int],
    chunk_sizes: Sequence[int] | None,
    dim: int,
    streams: Sequence[Any] | None = None,
) -> list[torch.Tensor]:
    if not devices:
        raise RuntimeError("Expected at least one device to scatter to")
    if chunk_sizes is not None and len(chunk_sizes) != len(devices):
        raise RuntimeError(
            f"Expected devices and chunk_sizes to be of same length, but got len(devices) = {len(devices)} and "
            f"len(chunk_sizes) = {len(chunk_sizes)}"
        )
    chunks = tensor.chunk(len(devices), dim) if chunk_sizes is None else tensor.split_with_sizes(list(chunk_sizes), dim)
    return [chunk.to(_gpu(index), non_blocking=True) for chunk, index in zip(chunks, devices, strict=False)]


def _scatter_out(tensor: torch.Tensor, out: Sequence[torch.Tensor], dim: int, streams: Sequence[Any] | None = None) -> list[torch.Tensor]:
    if not out:
        raise RuntimeError("Expected at least one output tensor to scatter to")
    chunks = tensor.split_with_sizes([target.size(dim) for target in out], dim)
    for position, (target, chunk) in enumerate(zip(out, chunks, strict=True)):
        if not target.is_cuda:
            raise RuntimeError(
                f"Expected all output tensors to be CUDA tensors, but output tensor at index {position} is on {target.device}"
            )
        target.copy_(chunk, non_blocking=True)
    return list(out)


def _gather(tensors: Sequence[torch.Tensor], dim: int, destination: int | None) -> torch.Tensor:
    if not tensors:
        raise RuntimeError("Expected at least one tensor to gather from")
    first = tensors[0]
    shape = list(first.shape)
    for position, tensor in enumerate(tensors):
        if not tensor.is_cuda:
            raise RuntimeError(f"Expected all input tensors to be CUDA tensors, but tensor at index {position} is on {tensor.device}")
        others = list(tensor.shape)
        others[dim] = shape[dim]
        if others != shape:
            raise RuntimeError(
                f"Input tensor at index {position} has invalid shape {list(tensor.shape)}, "
                f"but expected {shape} (except for dimension {dim})"
            )
    shape[dim] = sum(tensor.size(dim) for tensor in tensors)
    place = CPU if destination == -1 else current_state().cuda(destination)
    return _gather_out(tensors, torch.empty(shape, dtype=first.dtype, device=place), dim)


def _gather_out(tensors: Sequence[torch.Tensor], out: torch.Tensor, dim: int) -> torch.Tensor:
    for part, tensor in zip(out.split_with_sizes([tensor.size(dim) for tensor in tensors], dim), tensors, strict=True):
        part.copy_(tensor, non_blocking=True)
    return out


def _backward_of_broadcast(original: Callable[..., Any]) -> Callable[..., Any]:
    """Autograd's zeros stand for gradients that no replica gave; C++ makes them on the replica's GPU, and for it all carriers share one."""

    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        homes = [_gpu(index) for index in ctx.target_gpus for _ in range(ctx.num_inputs)]
        return original(ctx, *[gradient.to(home) for gradient, home in zip(gradients, homes, strict=True)])

    return backward


_COMM: tuple[Callable[..., Any], ...] = (
    _broadcast,
    _broadcast_out,
    _broadcast_coalesced,
    _scatter,
    _scatter_out,
    _gather,
    _gather_out,
)
_COLLECTIVES = ("all_reduce", "reduce", "broadcast", "all_gather", "reduce_scatter", "unique_id", "init_rank")


def _collective(name: str) -> Callable[..., Any]:
    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise UnsupportedFeatureError(f"torch.cuda.nccl.{name} is not supported on a virtual machine; use torch.distributed.")

    return refuse


def install_parallel(patches: Patches) -> None:
    """Give `torch.nn.parallel` its C++ functions, and `torch.cuda.nccl` honest answers."""
    for function in _COMM:
        patches.attribute(torch._C, function.__name__, function)
    broadcast = torch.nn.parallel._functions.Broadcast
    patches.attribute(broadcast, "backward", staticmethod(_backward_of_broadcast(broadcast.backward)))
    # Copy streams of another machine.
    patches.attribute(torch.nn.parallel._functions, "_streams", None)
    patches.attribute(torch.cuda.nccl, "is_available", lambda tensors: False)
    patches.attribute(torch.cuda.nccl, "version", lambda: NCCL_VERSION)
    for name in _COLLECTIVES:
        patches.attribute(torch.cuda.nccl, name, _collective(name))
