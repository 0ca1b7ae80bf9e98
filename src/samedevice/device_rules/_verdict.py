"""Would CUDA refuse these devices, and in which words?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from samedevice.device_rules._rows import Argument, Check, Demand, Row

_NEWER_WORDING = (2, 8)
"""First torch version whose wrappers name the argument that differs first.

Source: pytorch pull request 155085, "Make device check throw specific error", of June 2025; the text is in
libtorch_cpu.so of the 2.8.0 wheel, and not in that of 2.7.1.
"""

TYPE_NAMES = {
    "float32": "Float", "float64": "Double", "float16": "Half", "bfloat16": "BFloat16", "int64": "Long",
    "int32": "Int", "int16": "Short",
    "int8": "Char", "uint8": "Byte", "bool": "Bool", "complex64": "ComplexFloat", "complex128":
    "ComplexDouble",
    "complex32": "ComplexHalf",
}  # fmt: skip
"""Types of elements as C++ names them."""

Placed = tuple[int, Argument]
"""An argument and its position in the call."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """CUDA's refusal: the text, and the position of the argument that it stumbled over."""

    message: str
    position: int
    silent: bool = False
    """True when the kernel would not raise at all: wrong results or an illegal access."""
    missing: bool = False
    """True when there is no kernel to ask: a NotImplementedError."""


def judge_devices(row: Row, arguments: Sequence[Argument], torch_version: tuple[int, int]) -> Refusal | None:
    """None when the kernel accepts these devices.

    `arguments` are the operator's tensor arguments in schema order; at least one is on a GPU.
    """
    for demand in row.demands:
        refusal = _judge_demand(demand, arguments)
        if refusal is not None:
            return refusal
    refusal = _judge_check(row, _looked_at(row, arguments), arguments, torch_version)
    if refusal is None and row.then is not None:
        return judge_devices(row.then, arguments, torch_version)
    return refusal


def _judge_check(
    row: Row, placed: Sequence[Placed], arguments: Sequence[Argument], torch_version: tuple[int, int]
) -> Refusal | None:
    match row.check:
        case Check.FREE | Check.PARTS:
            return None
        case Check.INDEX:
            return _judge_index(arguments)
        case Check.INDEX_PUT:
            return _judge_index_put(arguments)
        case Check.WRAPPER:
            return _judge_wrapper(row, placed, torch_version)
        case Check.ITERATOR | Check.ITERATOR_STRICT | Check.SCALARS_MOVE:
            return _judge_iterator(row, placed)
        case Check.UNCHECKED:
            return _judge_unchecked(row, placed)


def _looked_at(row: Row, arguments: Sequence[Argument]) -> list[Placed]:
    """The arguments that the kernel compares, in its order."""
    placed = [(p, a) for p, a in enumerate(arguments) if a.bare not in row.free]
    if not row.order:
        return placed
    return [(p, a) for name in row.order for p, a in placed if a.bare == name]


def _two_devices(first: str, second: str) -> str:
    return (
        f"Expected all tensors to be on the same device, but found at least two devices, {first} and "
        f"{second}!"
    )


def _kind(device: str) -> str:
    return device.partition(":")[0]


def _judge_demand(demand: Demand, arguments: Sequence[Argument]) -> Refusal | None:
    reference = next((argument for argument in arguments if argument.bare == demand.reference), None)
    if reference is None and demand.reference:
        return None
    if demand.beside is not None and all(argument.bare != demand.beside for argument in arguments):
        return None
    own = "cpu" if reference is None else reference.device
    if demand.on is not None and _kind(own) != demand.on:
        return None
    for position, argument in enumerate(arguments):
        if argument.bare not in demand.others or (demand.host_passes and argument.device == "cpu"):
            continue
        same = _kind(argument.device) == _kind(own) if demand.kinds else argument.device == own
        if not same:
            return Refusal(_words(demand, own, argument, arguments), position, missing=demand.missing)
    return None


def no_kernel(operator: str, backend: str = "CUDA") -> str:
    """What the dispatcher says to a tensor on a GPU; what it lists after this differs between builds.

    Source: c10/core/impl, OperatorEntry::reportError.
    """
    return (
        f"Could not run '{operator}' with arguments from the '{backend}' backend. This could be because the "
        "operator doesn't exist for this backend, or was omitted during the selective/custom build process "
        "(if using custom build). If you are a Facebook employee using PyTorch on mobile, please visit "
        "https://fburl.com/ptmfixes for possible resolutions."
    )


def _words(demand: Demand, own: str, offender: Argument, arguments: Sequence[Argument]) -> str:
    first: dict[str, Argument] = {}
    for argument in arguments:
        first.setdefault(argument.bare, argument)
    devices = {name: argument.device for name, argument in first.items()}
    types = {f"{name}_type": _legacy_type(argument) for name, argument in first.items()}
    place = offender.name.partition("[")[2].rstrip("]")
    return demand.text.format(
        own,
        offender.device,
        kind=_kind(own),
        other_kind=_kind(offender.device),
        dim=offender.dim,
        position=place,
        **{**devices, **types, offender.bare: offender.device},
    )


def _legacy_type(argument: Argument) -> str:
    # torch/csrc/Exceptions.cpp turns `CUDAFloatType` of C++ messages into Python's legacy type name.
    module = "torch" if argument.device == "cpu" else f"torch.{_kind(argument.device)}"
    return f"{module}.{TYPE_NAMES.get(argument.dtype, argument.dtype)}Tensor"


def _judge_wrapper(row: Row, placed: Sequence[Placed], torch_version: tuple[int, int]) -> Refusal | None:
    # torchgen/dest/register_dispatch_key.py, gen_device_check: outputs, then positional tensors, against the
    # first of them.
    placed = [(p, a) for p, a in placed if not (a.device == "cpu" and (a.bare, a.dtype) in row.host)]
    if not placed:
        return None
    common = placed[0][1].device
    for position, argument in placed[1:]:
        if argument.device == common:
            continue
        name = dict(row.names).get(argument.bare, argument.bare)
        deep = (
            row.deep_method is not None
            and placed[0][1].dim > 2
            and common != "cpu"
            and row.deep_needs <= {a.bare for _, a in placed}
        )
        method = row.deep_method if deep else row.method
        if method is None:
            return Refusal(_two_devices(common, argument.device), position)
        if torch_version >= _NEWER_WORDING:
            text = (
                f"Expected all tensors to be on the same device, but got {name} is on {argument.device}, "
                f"different from other tensors on {common} (when checking argument in method {method})"
            )
        else:
            text = (
                f"{_two_devices(common, argument.device)} (when checking argument for argument {name} in "
                f"method {method})"
            )
        return Refusal(text, position)
    return None


def _judge_iterator(row: Row, placed: Sequence[Placed]) -> Refusal | None:
    # aten/src/ATen/TensorIterator.cpp, compute_types. Outputs come first among the iterator's operands.
    written = {position for position, a in placed if a.written or a.bare == row.result}
    ordered = sorted(placed, key=lambda each: each[0] not in written)
    if row.check is Check.SCALARS_MOVE:
        ordered = [(p, a) for p, a in ordered if a.dim > 0 or p in written]
    common = next((argument.device for _, argument in (*ordered, *placed) if argument.device != "cpu"), None)
    passed: list[Placed] = []
    for position, argument in ordered:
        if argument.device == common or common is None:
            continue
        if (
            row.check is Check.ITERATOR
            and argument.device == "cpu"
            and argument.dim == 0
            and position not in written
        ):
            passed.append((position, argument))
            if len(passed) > 1:
                return Refusal("Trying to pass too many CPU scalars to non-CPU kernel!", position)
            continue
        return Refusal(_two_devices(common, argument.device), position)
    said = dict(row.scalars)
    for position, argument in passed:
        if argument.bare in said:
            return Refusal(said[argument.bare].format(place=position + 1), position)
    return None


def _judge_index(arguments: Sequence[Argument]) -> Refusal | None:
    own = arguments[0].device
    for position, argument in enumerate(arguments):
        if argument.bare == "indices" and argument.device not in (own, "cpu"):
            text = f"indices should be either on cpu or on the same device as the indexed tensor ({own})"
            return Refusal(text, position)
    return None


def _judge_index_put(arguments: Sequence[Argument]) -> Refusal | None:
    own = arguments[0].device
    found = next(((p, a) for p, a in enumerate(arguments) if a.name == "values"), None)
    if found is None or found[1].device == own or found[1].dim == 0:
        return None  # a 0-dim value moves, whatever device it is on
    position, value = found
    masks = [a for a in arguments if a.bare == "indices"]
    if (
        value.device == "cpu"
        and value.numel == 1
        and len(masks) == 1
        and masks[0].dtype in ("bool", "uint8")
        and masks[0].device == own
    ):
        return None  # canDispatchToMaskedFill: one value on the host, read by item()
    common = own if own != "cpu" else value.device
    return Refusal(
        _two_devices(common, value.device if own != "cpu" else own), position if own != "cpu" else 0
    )


def _judge_unchecked(row: Row, placed: Sequence[Placed]) -> Refusal | None:
    common = next((argument.device for _, argument in placed if argument.device != "cpu"), "cpu")
    for position, argument in placed:
        if argument.device != common:
            if row.by_default:
                text = (
                    f"{row.op} wants all its tensors on one device, but {argument.name} is on "
                    f"{argument.device} and others on {common}"
                )
            else:
                text = (
                    f"{row.op}: it checks no devices; {argument.name} on {argument.device} may be read as if "
                    f"it were on {common}"
                )
            return Refusal(text, position, silent=True)
    return None
