"""Single-process data parallelism (`nn.DataParallel`, `torch.nn.parallel.comm`) on virtual GPUs.

Must guarantee: what torch's C++ does in `torch/csrc/cuda/comm.cpp`, by ordinary tensor operators, so that the
engine sees every transfer. torch's own Python around it stays as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.parallel._functions

from samedevice.runtime.patching import Constant, Patch
from samedevice.runtime.state import CPU, current_machine


def _gpu(index: int) -> torch.device:
    if index < 0:
        raise RuntimeError(f"Expected non-negative device index, but got {index}")
    return current_machine().cuda(index)


def _broadcast(tensor: torch.Tensor, devices: Sequence[int]) -> list[torch.Tensor]:
    return [tensor.to(_gpu(index), non_blocking=True) for index in devices]


def _broadcast_out(tensor: torch.Tensor, out: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    for position, target in enumerate(out):
        if not target.is_cuda:
            raise RuntimeError(
                f"Expected all output tensors to be CUDA tensors, but output tensor at index {position} has "
                f"device '{target.device}'"
            )
        if target.shape != tensor.shape:
            raise RuntimeError(
                f"Expected all output tensors to have same shape as the source tensor {list(tensor.shape)}, "
                f"but output tensor at index {position} has shape {list(target.shape)}"
            )
        target.copy_(tensor, non_blocking=True)
    return list(out)


def _broadcast_coalesced(
    tensors: Sequence[torch.Tensor], devices: Sequence[int], buffer_size: int
) -> list[list[torch.Tensor]]:
    first = _gpu(devices[0])
    if any(tensor.device != first for tensor in tensors):
        raise RuntimeError(f"All tensors must be on devices[0]: {devices[0]}")
    return [
        list(tensors),
        *([tensor.to(_gpu(index), non_blocking=True) for tensor in tensors] for index in devices[1:]),
    ]


def _check_streams(streams: Sequence[Any] | None, homes: Sequence[int]) -> None:
    for position, (stream, home) in enumerate(zip(streams or (), homes, strict=False)):
        if stream is not None and stream.device_index != home:
            raise RuntimeError(
                f"Expected the device associated with the stream at index {position} (was "
                f"{stream.device_index}) to match the device supplied at that index (expected {home})"
            )


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
            f"Expected devices and chunk_sizes to be of same length, but got len(devices) = {len(devices)} "
            f"and len(chunk_sizes) = {len(chunk_sizes)}"
        )
    chunks = (
        tensor.chunk(len(devices), dim)
        if chunk_sizes is None
        else tensor.split_with_sizes(list(chunk_sizes), dim)
    )
    if tensor.device.type == "cpu":
        _check_streams(streams, devices[: len(chunks)])
    return [chunk.to(_gpu(index), non_blocking=True) for chunk, index in zip(chunks, devices, strict=False)]


def _scatter_out(
    tensor: torch.Tensor, out: Sequence[torch.Tensor], dim: int, streams: Sequence[Any] | None = None
) -> list[torch.Tensor]:
    if not out:
        raise RuntimeError("Expected at least one output tensor to scatter to")
    dim = _positive(dim, tensor)
    for position, target in enumerate(out):
        if not target.is_cuda:
            raise RuntimeError(
                f"Expected all output tensors to be CUDA tensors, but output tensor at index {position} has "
                f"device '{target.device}'"
            )
        if target.dim() != tensor.dim() or _without(target, dim) != _without(tensor, dim):
            raise RuntimeError(
                f"Output tensor at index {position} has incorrect shape: {list(target.shape)}. Expected same "
                f"shape except for scatter dim {dim} as the source tensor: {list(tensor.shape)}"
            )
    sizes = [target.size(dim) for target in out]
    if sum(sizes) != tensor.size(dim):
        raise RuntimeError(
            f"Total size for output tensors along scatter dim {dim} does not match the source tensor size at "
            f"dim {dim}. Expected {tensor.size(dim)}, but got total size {sum(sizes)}"
        )
    _check_streams(streams, [target.get_device() for target in out])
    for target, chunk in zip(out, tensor.split_with_sizes(sizes, dim), strict=True):
        target.copy_(chunk, non_blocking=True)
    return list(out)


def _positive(dim: int, tensor: torch.Tensor) -> int:
    """A dimension counted from the front; a 0-dim tensor has one for this purpose."""
    rank = max(tensor.dim(), 1)
    if not -rank <= dim < rank:
        raise IndexError(
            f"Dimension out of range (expected to be in range of [{-rank}, {rank - 1}], but got {dim})"
        )
    return dim % rank


def _without(tensor: torch.Tensor, dim: int) -> list[int]:
    return [size for position, size in enumerate(tensor.shape) if position != dim]


def _gathered_shape(tensors: Sequence[torch.Tensor], dim: int, spelling: str) -> list[int]:
    """The shape of what is gathered, after C++'s checks.

    `spelling` is how the caller writes a device.
    """
    first = tensors[0]
    shape = list(first.shape)
    for position, tensor in enumerate(tensors):
        if not tensor.is_cuda:
            where = spelling.format(tensor.device)
            raise RuntimeError(
                f"Expected all input tensors to be CUDA tensors, but tensor at index {position} has device "
                f"{where}"
            )
        if tensor.dim() != len(shape):
            raise RuntimeError(
                "Expected all input tensors to have the same number of dimensions, but tensor at index "
                f"{position}has {tensor.dim()} dimensions, (expected {len(shape)})"
            )
        shape[dim] = tensor.size(dim)
        if list(tensor.shape) != shape:
            raise RuntimeError(
                f"Input tensor at index {position} has invalid shape {list(tensor.shape)}, but expected "
                f"{shape}"
            )
    shape[dim] = sum(tensor.size(dim) for tensor in tensors)
    return shape


def _gather(tensors: Sequence[torch.Tensor], dim: int, destination: int | None) -> torch.Tensor:
    if not tensors:
        raise RuntimeError("Expected at least one tensor to gather from")
    first = tensors[0]
    dim = _positive(dim, first)
    shape = _gathered_shape(tensors, dim, "{}")
    place = CPU if destination == -1 else current_machine().cuda(destination)
    formats = {_suggested_format(tensor) for tensor in tensors}
    memory_format = formats.pop() if len(formats) == 1 else torch.contiguous_format
    made = torch.empty(shape, dtype=first.dtype, device=place, memory_format=memory_format)
    return _filled(made, tensors, dim)


def _suggested_format(tensor: torch.Tensor) -> torch.memory_format:
    """As `TensorImpl` suggests one for what is made from a tensor."""
    return torch._prims_common.suggest_memory_format(tensor)


def _gather_out(tensors: Sequence[torch.Tensor], out: torch.Tensor, dim: int) -> torch.Tensor:
    if not tensors:
        raise RuntimeError("Expected at least one tensor to gather from")
    dim = _positive(dim, tensors[0])
    shape = _gathered_shape(tensors, dim, "'{}'")
    if list(out.shape) != shape:
        raise RuntimeError(f"Expected out tensor to have shape {shape}, but got {list(out.shape)}")
    return _filled(out, tensors, dim)


def _filled(out: torch.Tensor, tensors: Sequence[torch.Tensor], dim: int) -> torch.Tensor:
    for part, tensor in zip(
        out.split_with_sizes([tensor.size(dim) for tensor in tensors], dim), tensors, strict=True
    ):
        part.copy_(tensor, non_blocking=out.is_cuda)
    return out


_COMM: tuple[Callable[..., Any], ...] = (
    _broadcast,
    _broadcast_out,
    _broadcast_coalesced,
    _scatter,
    _scatter_out,
    _gather,
    _gather_out,
)
PATCHES = (
    *(
        Patch(
            f"torch._C.{function.__name__}",
            Constant(function),
            "`torch.nn.parallel` calls these C++ functions, which a build without CUDA lacks",
        )
        for function in _COMM
    ),
    Patch("torch.nn.parallel._functions._streams", Constant(None), "it holds streams of another machine"),
)
