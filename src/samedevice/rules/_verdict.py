"""Would CUDA refuse these devices, and in which words?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from samedevice.rules._rows import Argument, Check, Row

_NEWER_WORDING = (2, 9)
"""First torch version whose wrappers name the argument that differs first."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """CUDA's refusal: the text, and the position of the argument that it stumbled over."""

    message: str
    position: int
    silent: bool = False
    """True when the kernel would not raise at all: wrong results or an illegal access."""


def judge_devices(row: Row, arguments: Sequence[Argument], torch_version: tuple[int, int]) -> Refusal | None:
    """None when the kernel accepts these devices.

    `arguments` are the operator's tensor arguments in schema order; at least one is on a GPU.
    """
    match row.check:
        case Check.FREE:
            return None
        case Check.INDEX:
            return _judge_index(arguments)
        case Check.INDEX_PUT:
            return _judge_index_put(arguments)
        case Check.MASKED_FILL:
            return _judge_masked_fill(arguments)
        case Check.WRAPPER:
            return _judge_wrapper(row, arguments, torch_version)
        case Check.ITERATOR | Check.ITERATOR_STRICT:
            return _judge_iterator(arguments, scalars=row.check is Check.ITERATOR)
        case Check.UNCHECKED:
            return _judge_unchecked(row, arguments)


def _two_devices(first: str, second: str) -> str:
    return f"Expected all tensors to be on the same device, but found at least two devices, {first} and {second}!"


def _judge_wrapper(row: Row, arguments: Sequence[Argument], torch_version: tuple[int, int]) -> Refusal | None:
    checked = [(position, argument) for position, argument in enumerate(arguments) if _bare(argument.name) not in row.free]
    if not checked:
        return None
    common = checked[0][1].device
    for position, argument in checked[1:]:
        if argument.device == common:
            continue
        name = dict(row.names).get(_bare(argument.name), _bare(argument.name))
        if row.method is None:
            return Refusal(_two_devices(common, argument.device), position)
        if torch_version >= _NEWER_WORDING:
            text = (
                f"Expected all tensors to be on the same device, but got {name} is on {argument.device}, different from "
                f"other tensors on {common} (when checking argument in method {row.method})"
            )
        else:
            text = f"{_two_devices(common, argument.device)} (when checking argument for argument {name} in method {row.method})"
        return Refusal(text, position)
    return None


def _bare(name: str) -> str:
    return name.partition("[")[0]


def _judge_iterator(arguments: Sequence[Argument], *, scalars: bool) -> Refusal | None:
    # Source: aten/src/ATen/TensorIterator.cpp, compute_types. Outputs come first among the iterator's operands.
    ordered = sorted(range(len(arguments)), key=lambda position: not arguments[position].written)
    common = next((arguments[p].device for p in ordered if arguments[p].device != "cpu"), "cpu")
    passed = 0
    for position in ordered:
        argument = arguments[position]
        if argument.device == common:
            continue
        if scalars and argument.device == "cpu" and argument.dim == 0 and not argument.written:
            passed += 1
            if passed < len(arguments):
                continue
        return Refusal(_two_devices(common, argument.device), position)
    return None


def _judge_index(arguments: Sequence[Argument]) -> Refusal | None:
    own = arguments[0].device
    for position, argument in enumerate(arguments[1:], 1):
        if argument.device not in (own, "cpu"):
            text = f"indices should be either on cpu or on the same device as the indexed tensor ({own})"
            return Refusal(text, position)
    return None


def _judge_index_put(arguments: Sequence[Argument]) -> Refusal | None:
    own = arguments[0].device
    position, value = next(((p, a) for p, a in enumerate(arguments) if a.name == "values"), (0, arguments[0]))
    if value.device != own and not (value.dim == 0 and value.device == "cpu"):
        return Refusal(_two_devices(own, value.device), position)
    return None


def _judge_masked_fill(arguments: Sequence[Argument]) -> Refusal | None:
    own = arguments[0].device
    for position, argument in enumerate(arguments[1:], 1):
        if argument.device == own or (argument.name == "value" and argument.device == "cpu" and argument.dim == 0):
            continue
        if argument.name == "mask":
            text = f"expected self and mask to be on the same device, but got mask on {argument.device} and self on {own}"
        else:
            text = "masked_fill_: Expected inputs to be on same device"
        return Refusal(text, position)
    return None


def _judge_unchecked(row: Row, arguments: Sequence[Argument]) -> Refusal | None:
    common = next((argument.device for argument in arguments if argument.device != "cpu"), "cpu")
    for position, argument in enumerate(arguments):
        if argument.device != common and _bare(argument.name) not in row.free:
            text = f"{row.op} checks no devices: {argument.name} on {argument.device} is read as if it were on {common}"
            return Refusal(text, position, silent=True)
    return None
