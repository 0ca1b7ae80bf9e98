"""How far random operators move the Philox offset of a GPU's generator.

Must guarantee: what an operator is called with decides, never whether its values are computed. A state that
was kept before an operator stands for the same place afterwards as on a real GPU of the same kind: torch's
DTensor computes with offsets, and checkpoints carry them. Source of the rule for kernels that fill a tensor
element by element: `calc_execution_policy` of ATen/native/cuda/DistributionTemplates.h. The amounts for
attention, `randperm` and those of `_PER_THREAD` are from memory; none was compared with a GPU.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from samedevice.runtime.cuda import DeviceProperties, device_properties
from samedevice.runtime.state import Call, MachineState, Operator, tensors_in, virtual_state

_BLOCK = 256
_ENGINE_CALL = 4
"""Numbers that one call of cuRAND's engine uses."""
_PER_THREAD = {
    "poisson": 20, "binomial": 42, "_standard_gamma": 10, "_sample_dirichlet": 10,
    "bernoulli.default": 10, "bernoulli_.Tensor": 10, "bernoulli.Tensor": 10, "bernoulli.out": 10,
}  # fmt: skip
"""Kernels whose threads take a fixed number of draws."""
_WIDE_RANGE = 1 << 28
"""Above it, integers are drawn as 64 bits."""


def engine_for(call: Call, state: MachineState) -> Any:
    """What a random operator on a GPU draws from.

    That GPU's generator, or the one that was given, goes on.
    """
    given = call.generator or next(
        (value for value in call.args if isinstance(value, torch._C.Generator)), None
    )
    index = call.target.index
    philox = virtual_state(state.generator(index) if given is None else given)
    if philox is None:  # a generator of the host, which was recorded
        return given
    return philox.draw(offset_used(call, device_properties(state, index)))


def offset_used(call: Call, device: DeviceProperties) -> int:
    """By how much one call moves the offset; 0 where it draws nothing."""
    op = call.op
    arguments = _defaults(op) | dict(zip(op.argument_names, call.args, strict=False)) | call.kwargs
    if "attention" in op.short:
        return _of_attention(arguments) if arguments.get("dropout_p") and "backward" not in op.short else 0
    if (
        arguments.get("train") is False
        or arguments.get("training") is False
        or (op.short == "native_dropout" and arguments.get("p") == 1)
    ):
        return 0
    elements = _elements(call, arguments)
    if elements == 0:
        return 0
    if (per_thread := _PER_THREAD.get(op.name.removeprefix("aten."), _PER_THREAD.get(op.short))) is not None:
        return _rounded(per_thread)
    grid = min(
        device.multi_processor_count * (device.max_threads_per_multi_processor // _BLOCK),
        -(-elements // _BLOCK),
    )
    return ((elements - 1) // (_BLOCK * grid * _drawn_at_once(call, arguments)) + 1) * _ENGINE_CALL


def draws_nothing(
    op: Operator, args: tuple[Any, ...], kwargs: dict[str, Any], tensors: Sequence[torch.Tensor]
) -> bool:
    """Whether a random operator fills no element: then no generator is asked.

    Source: DistributionTemplates.h.
    """
    arguments = dict(zip(op.argument_names, args, strict=False)) | kwargs
    if "n" in arguments:  # randperm
        return bool(arguments["n"] == 0)
    if "size" in arguments:
        return 0 in arguments["size"]
    return bool(tensors) and tensors[0].numel() == 0


def _defaults(op: Operator) -> dict[str, Any]:
    return {
        argument.name: argument.default_value
        for argument in op.func._schema.arguments
        if argument.has_default_value()
    }


def _of_attention(arguments: dict[str, Any]) -> int:
    batch, heads, queries = arguments["query"].shape[:3]
    if "max_q" in arguments or "return_debug_mask" in arguments:  # flash attention
        return _rounded(batch * heads * 32)
    return _rounded(batch * heads * queries * arguments["key"].shape[-2])


def _elements(call: Call, arguments: dict[str, Any]) -> int:
    if call.tensors:
        return max(tensor.numel() for tensor in call.tensors)
    if "n" in arguments:  # randperm
        return int(arguments["n"])
    size = arguments.get("size")
    return math.prod(size) if size is not None else 1


def _drawn_at_once(call: Call, arguments: dict[str, Any]) -> int:
    """Elements that a thread gets of one call of the engine."""
    if "high" in arguments or "to" in arguments or "from" in arguments or call.op.short == "random_":
        low, high = (
            arguments.get("low", arguments.get("from", 0)) or 0,
            arguments.get("high", arguments.get("to")),
        )
        wide = high - low >= _WIDE_RANGE if high is not None else _dtype(call, arguments).itemsize == 8
        return 2 if wide else 4
    return 2 if _dtype(call, arguments).itemsize == 8 else 4


def _dtype(call: Call, arguments: dict[str, Any]) -> torch.dtype:
    dtype = arguments.get("dtype")
    if isinstance(dtype, torch.dtype):
        return dtype
    if dtype is not None:  # a default is given as a number, and the only one is `long`
        return torch.int64
    first = next(tensors_in(call.tensors), None)
    return torch.get_default_dtype() if first is None else first.dtype


def _rounded(offset: int) -> int:
    """As `CUDAGeneratorImpl::philox_cuda_state` rounds."""
    return -(-offset // _ENGINE_CALL) * _ENGINE_CALL
