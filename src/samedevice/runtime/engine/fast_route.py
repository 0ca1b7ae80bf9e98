"""Whether a foreach operator runs as one kernel over all its tensors, or one tensor after the other.

Source: `ForeachUtils.h` (`can_use_fast_route`), `ForeachOpsKernels.cpp` and `cuda/Foreach*.cu` in
aten/src/ATen/native.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from samedevice.runtime.state import Operator, aten, device_of

PREFIX = "_foreach_"
"""Of the names of such operators."""
_INTEGERS_TOO = frozenset({"abs", "add", "copy", "max", "mul", "neg", "sub", "zero"})
"""Operators whose kernel takes integers and booleans; the others hand those to one operator each."""
_NO_COMPLEX = frozenset({"abs", "norm"})
"""Their results have another type than complex tensors."""
_ONE_AFTER_THE_OTHER = frozenset({"mm"})
"""Operators that have no kernel for lists on CUDA: native_functions.yaml."""
_NORMS = (1, 2, math.inf)
_HOST_NUMBERS = frozenset({"div", "mul"})
"""Operators that take a tensor of the host with one number for the number."""
_OF_A_NUMBER = "pow.ScalarAndTensor"
_UNCHECKED = frozenset({"lerp.Scalar", "addcdiv.Tensor", "addcmul.Tensor", _OF_A_NUMBER})
"""Variants whose numbers do not decide."""
_Lists = list[Sequence[torch.Tensor]]


def one_kernel(op: Operator, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    """Whether all tensors of a foreach operator go through one kernel of a GPU."""
    if not takes_fast_route(op, args, kwargs):
        return False
    first = next(value for value in (*args, *kwargs.values()) if _is_list(value))
    return device_of(first[0]).type == "cuda" and any(tensor.numel() for tensor in first)


def takes_fast_route(op: Operator, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    """Whether CUDA's entry of a foreach operator does not hand each tensor to an operator of its own."""
    name = op.short.removeprefix(PREFIX).rstrip("_")
    given = {**dict(zip(op.argument_names, args, strict=False)), **kwargs}
    lists: _Lists = [value for value in given.values() if _is_list(value)]
    if not lists or not lists[0] or name in _ONE_AFTER_THE_OTHER:
        return False
    first = lists[0][0]
    if not _alike(lists, any_type=name == "copy"):
        return False
    dtype, variant = first.dtype, f"{name}.{op.func._overloadname}"
    if not (dtype.is_floating_point or dtype.is_complex or name in _INTEGERS_TOO or variant == _OF_A_NUMBER):
        return False
    if dtype.is_complex and name in _NO_COMPLEX:
        return False
    if name == "norm":
        return given.get("ord", 2) in _NORMS
    return _numbers_keep_the_type(given, first, check=variant not in _UNCHECKED, name=name)


_ELEMENTS: dict[Any, Any] = {
    aten._foreach_add.Tensor: aten.add.Tensor,
    aten._foreach_add_.Tensor: aten.add_.Tensor,
}
"""Operators whose kernel for lists compares devices otherwise than what each tensor is handed to."""


def for_each(op: Operator, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """What takes each tensor by itself where no kernel takes all, if it compares devices otherwise."""
    single = _ELEMENTS.get(op.func)
    return None if single is None or takes_fast_route(op, args, kwargs) else single


def _is_list(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and all(isinstance(part, torch.Tensor) for part in value)


def _alike(lists: _Lists, *, any_type: bool) -> bool:
    first = lists[0][0]
    device = device_of(first)
    for tensors in lists:
        dtype = tensors[0].dtype if any_type else first.dtype
        for tensor in tensors:
            if tensor.layout is not torch.strided or tensor.dtype != dtype or device_of(tensor) != device:
                return False
            if not _dense(tensor):
                return False
    return all(
        tensor.size() == other.size() and _steps(tensor) == _steps(other)
        for tensors in lists[1:]
        for tensor, other in zip(lists[0], tensors, strict=False)
    )


def _dense(tensor: torch.Tensor) -> bool:
    """Whether the elements fill their memory without gaps and overlaps."""
    step = 1
    for stride, size in sorted(zip(tensor.stride(), tensor.size(), strict=True)):
        if size == 1:
            continue
        if stride != step:
            return False
        step *= size
    return True


def _steps(tensor: torch.Tensor) -> list[int]:
    """Strides of the dimensions that have any."""
    return [stride for size, stride in zip(tensor.size(), tensor.stride(), strict=True) if size != 1]


def _numbers_keep_the_type(given: Mapping[str, Any], first: torch.Tensor, *, check: bool, name: str) -> bool:
    """Whether no number would make a result of another type; a tensor with one number must have the type."""
    number = given.get("scalar", given.get("other"))
    if isinstance(number, torch.Tensor):
        if device_of(number).type == "cpu" and name in _HOST_NUMBERS:
            number = number.item()
        elif number.dtype != first.dtype:
            return False
        else:
            number = None
    if not check:
        return True
    numbers = [number, given.get("alpha"), given.get("value"), given.get("weight"), *_list(given)]
    return all(
        torch.result_type(_empty(first.dtype), each) == first.dtype
        for each in numbers
        if isinstance(each, (bool, int, float, complex))
    )


def _list(given: Mapping[str, Any]) -> list[Any]:
    scalars = given.get("scalars", given.get("weight", ()))
    return list(scalars) if isinstance(scalars, (list, tuple)) else []


def _empty(dtype: torch.dtype) -> torch.Tensor:
    return torch.empty(1, dtype=dtype, device="cpu")
