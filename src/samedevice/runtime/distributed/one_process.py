"""`torch.cuda.nccl`: collectives among the GPUs of one process.

Must guarantee: the checks and texts of `torch/csrc/cuda/nccl.cpp`, no memory from the caching allocator, and
values as those of `torch.distributed`. torch's own Python around it stays as it is, so that
`torch.cuda.comm.reduce_add` takes the same way as on real GPUs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.cuda.nccl
import torch.distributed as dist

from samedevice.device_rules import TYPE_NAMES
from samedevice.errors import UnsupportedFeatureError
from samedevice.runtime.cuda import NCCL_VERSION
from samedevice.runtime.distributed.collectives import all_known, any_assumed, reduced, values_of
from samedevice.runtime.patching import Constant, Patch
from samedevice.runtime.state import JOINED_SHARE, VALUE_LIMIT, as_torch
from samedevice.runtime.tracking import write_value

_ReduceOp: Any = dist.ReduceOp.RedOpType
_REDUCTIONS = (_ReduceOp.SUM, _ReduceOp.PRODUCT, _ReduceOp.MAX, _ReduceOp.MIN, _ReduceOp.AVG)
"""By their numbers in `ncclRedOp_t`."""
_LIMIT = VALUE_LIMIT * JOINED_SHARE
"""Bytes up to which a result keeps its values; see Note [Values]."""


def _nccl_all_reduce(inputs: Any, outputs: Any, op: int, streams: Any, comms: Any) -> None:
    inputs, outputs = _unpacked(inputs, streams, comms), list(outputs)
    _check(inputs, outputs, 1, 1)
    with as_torch():
        _write(outputs, [_sum(inputs, op)] * len(inputs), inputs)


def _nccl_reduce(inputs: Any, output: torch.Tensor, root: int, op: int, streams: Any, comms: Any) -> None:
    inputs = _unpacked(inputs, streams, comms)
    if not 0 <= root < len(inputs):
        raise RuntimeError("invalid root")
    _check(inputs, [output if place == root else None for place in range(len(inputs))], 1, 1)
    with as_torch():
        _write([output], [_sum(inputs, op)], inputs)


def _nccl_broadcast(inputs: Any, root: int, streams: Any, comms: Any) -> None:
    inputs = _unpacked(inputs, streams, comms)
    if not 0 <= root < len(inputs):
        raise RuntimeError("invalid root")
    _check(inputs, inputs, 1, 1)
    given, others = inputs[root], inputs[:root] + inputs[root + 1 :]
    with as_torch():
        _write(others, [_value(given)] * len(others), [given])


def _nccl_all_gather(inputs: Any, outputs: Any, streams: Any, comms: Any) -> None:
    inputs, outputs = _unpacked(inputs, streams, comms), list(outputs)
    _check(inputs, outputs, len(inputs), 1)
    with as_torch():
        parts = [each.reshape(-1) for each in map(_value, inputs) if each is not None]
        whole = torch.cat(parts) if len(parts) == len(inputs) else None
        _write(outputs, [whole] * len(outputs), inputs)


def _nccl_reduce_scatter(inputs: Any, outputs: Any, op: int, streams: Any, comms: Any) -> None:
    inputs, outputs = _unpacked(inputs, streams, comms), list(outputs)
    _check(inputs, outputs, 1, len(inputs))
    size = len(inputs)
    with as_torch():
        total = _sum(inputs, op)
        parts = [None] * size if total is None else total.reshape(size, -1).unbind()
        _write(outputs, parts, inputs)


def _unpacked(tensors: Any, streams: Any, comms: Any) -> list[torch.Tensor]:
    """The tensors, as they are without autograd."""
    for place, tensor in enumerate(tensors):
        if not isinstance(tensor, torch.Tensor):
            raise TypeError(f"expected Tensor at {place} (got {type(tensor).__name__})")
    found = [tensor.detach() for tensor in tensors]
    if streams is not None and len(streams) != len(found):
        raise RuntimeError("number of streams is not equal to number of inputs")
    if comms is not None:
        raise UnsupportedFeatureError(
            "Communicators of torch.cuda.nccl.init_rank are not supported on a virtual machine."
        )
    return found


def _check(
    inputs: Sequence[torch.Tensor],
    outputs: Sequence[torch.Tensor | None],
    input_multiplier: int,
    output_multiplier: int,
) -> None:
    """What C++ asks of them, in its order."""
    if not inputs:
        raise RuntimeError("input sequence can't be empty")
    if len(inputs) != len(outputs):
        raise RuntimeError(
            "inputs and outputs sequences have to be of the same length, but got input of length "
            f"{len(inputs)} and output of length {len(outputs)}"
        )
    first, seen = inputs[0], set()
    for tensor, output in zip(inputs, outputs, strict=True):
        _check_one(tensor, first.dtype)
        if tensor.numel() != first.numel():
            raise RuntimeError("all inputs must have the same number of elements")
        if output is not None:
            _check_one(output, first.dtype)
            if tensor.get_device() != output.get_device():
                raise RuntimeError("input and output must be on the same device")
            if output.numel() * output_multiplier != first.numel() * input_multiplier:
                raise RuntimeError("output must be of size input_size * size_multiplier")
        if tensor.get_device() in seen:
            raise RuntimeError("inputs must be on unique devices")
        seen.add(tensor.get_device())
    if first.dtype in _UNCONVERTIBLE:
        name = TYPE_NAMES[str(first.dtype).removeprefix("torch.")]
        raise RuntimeError(f"Unconvertible NCCL type {name}")


_UNCONVERTIBLE = (torch.int16, torch.complex32, torch.complex64, torch.complex128)
"""Types that NCCL has none for. Source: `to_nccl_data_type`."""


def _check_one(tensor: torch.Tensor, dtype: torch.dtype) -> None:
    if not tensor.is_cuda or tensor.is_sparse:
        raise RuntimeError("input and output elements have to be cuda dense Tensors")
    if tensor.dtype != dtype:
        raise RuntimeError("all inputs and outputs must be of the same Tensor dtype")
    if not tensor.is_contiguous():
        raise RuntimeError("all inputs and outputs have to be contiguous")


def _value(tensor: torch.Tensor) -> torch.Tensor | None:
    """What it holds, on the host; None for what is too large to say. What is not known is as assumed."""
    if not all_known([tensor]) and tensor.numel() * tensor.element_size() > VALUE_LIMIT:
        return None
    return values_of(tensor).clone()


def _sum(tensors: Sequence[torch.Tensor], op: int) -> torch.Tensor | None:
    if not 0 <= op < len(_REDUCTIONS):
        raise RuntimeError("NCCL Error 4: invalid argument")
    parts = [each for each in map(_value, tensors) if each is not None]
    return reduced(_REDUCTIONS[op], parts) if len(parts) == len(tensors) else None


def _write(
    outputs: Sequence[torch.Tensor], values: Sequence[torch.Tensor | None], sources: Sequence[torch.Tensor]
) -> None:
    known, assumed = all_known(sources), any_assumed(sources)
    for output, value in zip(outputs, values, strict=True):
        write_value(output, value, known, assumed, _LIMIT)


def _unsupported(name: str) -> Callable[..., Any]:
    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise UnsupportedFeatureError(
            f"torch.cuda.nccl.{name} is not supported on a virtual machine; use torch.distributed."
        )

    return refuse


PATCHES = (
    *(
        Patch(
            f"torch._C.{function.__name__}",
            Constant(function),
            "`torch.cuda.nccl` calls these C++ functions, which a build without CUDA lacks",
        )
        for function in (
            _nccl_all_reduce,
            _nccl_reduce,
            _nccl_broadcast,
            _nccl_all_gather,
            _nccl_reduce_scatter,
        )
    ),
    Patch("torch.cuda.nccl.version", Constant(lambda: NCCL_VERSION), "there may be no NCCL in the build"),
    *(
        Patch(
            f"torch.cuda.nccl.{name}",
            Constant(_unsupported(name)),
            "communicators of several processes are those of `torch.distributed`",
        )
        for name in ("unique_id", "init_rank")
    ),
)
