"""What a call of torch is, by torch's own schemas.

Which operator, what it writes, whether it draws random numbers.

Must guarantee: a callable without a schema of torch's own operators is no operator here; where overloads
differ, whatever one of them that fits the call writes counts as written.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from types import FunctionType
from typing import TYPE_CHECKING, Any

from samedevice.guards._align import tensors_of

if TYPE_CHECKING:
    import torch

_NAMES = {
    "__getitem__": "index",
    "__setitem__": "index_put_",
    "__matmul__": "matmul",
    "__rmatmul__": "matmul",
    "__truediv__": "div",
}
_WORDS = frozenset(
    {"add", "sub", "mul", "div", "pow", "mod", "and", "or", "xor", "eq", "ne", "lt", "le", "gt", "ge"}
)


_ALSO = {
    "input": ("self",),
    "x": ("self", "input"),
    "a": ("self", "input"),
    "x1": ("self", "input"),
    "x2": ("other",),
    "axis": ("dim",),
    "keepdims": ("keepdim",),
}
"""Names that torch takes for those of its schemas; `torch/csrc/utils/python_arg_parser.cpp`."""
_STATISTICS = frozenset({"running_mean", "running_var"})
_UNSAID = {
    "batch_norm_gather_stats": _STATISTICS,
    "batch_norm_gather_stats_with_counts": _STATISTICS,
    "batch_norm_update_stats": _STATISTICS,
    "_cudnn_rnn": frozenset({"dropout_state"}),
    "miopen_rnn": frozenset({"dropout_state"}),
}
"""What kernels write to although neither their schemas nor torch's judge of schemas says so;
`aten/src/ATen/native/Normalization.cpp`, `cuda/Normalization.cu`, `cudnn/RNN.cpp`.
"""

_ON_HOST: dict[str, dict[int, str]] = {
    **{name: {1: "batch_sizes"} for name in ("gru", "lstm", "rnn_relu", "rnn_tanh", "_pad_packed_sequence")},
    "_pack_padded_sequence": {1: "lengths"},
    "tensor_split": {1: "tensor_indices_or_sections"},
    **{name: {2: "input_lengths", 3: "target_lengths"} for name in ("ctc_loss", "_ctc_loss")},
}
"""Integers that C++ reads on the host, beside tensors of a GPU: their positions and names.

`aten/src/ATen/native/RNN.cpp`, `PackedSequence.cpp`, `TensorShape.cpp`, `LossCTC.cpp`.
"""


@dataclass(frozen=True, slots=True)
class Overload:
    """One schema of an operator."""

    names: tuple[str, ...]
    written: frozenset[str]
    schema: Any
    decided: bool
    """Whether what is written hangs on other arguments (`training`), and not on the schema alone."""

    def values(self, args: Sequence[Any], kwargs: dict[str, Any]) -> dict[str, Any] | None:
        """The arguments by their names in the schema; None where the overload does not take them."""
        if len(args) > len(self.names):
            return None
        found = dict(zip(self.names, args, strict=False))
        for name, value in kwargs.items():
            own = next((each for each in (name, *_ALSO.get(name, ())) if each in self.names), None)
            if own is None:
                return None
            found[own] = value
        return found


@dataclass(frozen=True, slots=True)
class Operator:
    """An operator of torch that a callable runs."""

    name: str
    overloads: tuple[Overload, ...]
    draws: bool
    """Whether it may advance a generator of random numbers."""
    in_parts: bool
    """Whether it is composite: autograd sees the operators that it is made of."""

    @property
    def leaves_nothing(self) -> bool:
        """Whether a call without `out` only reads, so that one that was refused has done nothing."""
        return not self.draws and not any(each.written for each in self.overloads)

    def written(self, args: Sequence[Any], kwargs: dict[str, Any]) -> list[Any] | None:
        """The arguments that the call writes to: tensors, and lists of them.

        None where no overload takes such arguments, and so nobody knows.
        """
        found = {id(kwargs.get("out")): kwargs["out"]} if kwargs.get("out") is not None else {}
        given = {name: value for name, value in kwargs.items() if name != "out"}
        fits = False
        for each in self.overloads:
            values = each.values(args, given)
            if values is None:
                continue
            fits = True
            names = _decided(each, values) if each.decided else each.written
            found |= {
                id(values[name]): values[name]
                for name in names
                if any(True for _ in tensors_of(values.get(name)))
            }
        return list(found.values()) if fits or self.leaves_nothing else None


def _decided(overload: Overload, values: dict[str, Any]) -> Iterator[str]:
    """What is written for these values.

    Batch norm updates its running statistics in training, and torch's judge of schemas knows it.
    """
    import torch

    info = torch._C._SchemaInfo(overload.schema)
    info.add_argument_values(
        {name: value for name, value in values.items() if isinstance(value, bool) and name in overload.names}
    )
    return (name for name in overload.written if info.is_mutable(name))


@functools.cache
def operator_of(function: Callable[..., Any]) -> Operator | None:
    """The operator of torch that a function of torch's C++ part is; None for any other callable."""
    import torch

    if isinstance(function, (torch._ops.OpOverload, torch._ops.OpOverloadPacket)):
        packet: Any = getattr(function, "overloadpacket", function)
        namespace, _, name = packet._qualified_op_name.partition("::")
        if namespace != "aten":
            return None
        only = getattr(function, "_overloadname", None)
    else:
        name, only = operator_name(function), None
    overloads, draws, in_parts = [], False, False
    for schema in torch._C._jit_get_schemas_for_operator(f"aten::{name}"):
        full = f"aten::{name}" + (f".{schema.overload_name}" if schema.overload_name else "")
        if only not in (None, schema.overload_name or "default") or not torch._C._dispatch_has_kernel(full):
            continue
        in_parts |= torch._C._dispatch_has_kernel_for_dispatch_key(full, "CompositeImplicitAutograd")
        draws |= (
            torch.Tag.nondeterministic_seeded
            in torch._C._get_operation_overload(f"aten::{name}", schema.overload_name)[2]
        )
        names = tuple(each.name for each in schema.arguments)
        info = torch._C._SchemaInfo(schema)
        unsaid = _UNSAID.get(name, frozenset()).intersection(names)
        written = unsaid.union(each for each in names if info.is_mutable(each))
        said = {
            each.name for each in schema.arguments if each.alias_info is not None and each.alias_info.is_write
        }
        if only is None and any(each.kwarg_only and each.name in said for each in schema.arguments):
            continue  # for a call with `out`
        overloads.append(Overload(names, written, schema, bool(written - said - unsaid)))
    return Operator(name, tuple(overloads), draws, in_parts) if overloads else None


def read_on_host(function: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> list[Any]:
    """The tensors of a call that are on the host because its operator reads them there."""
    import torch

    wanted = _ON_HOST.get(operator_name(function), {})
    found = [args[position] for position in wanted if position < len(args)]
    found += [kwargs[name] for name in wanted.values() if name in kwargs]
    return [
        each
        for each in found
        if isinstance(each, torch.Tensor) and each.device.type == "cpu" and not each.is_floating_point()
    ]


def is_python(function: Callable[..., Any]) -> bool:
    """Whether a function of torch is written in Python.

    What a virtual machine puts in the place of an operator is one operator.
    """
    machine = getattr(function, "__module__", None) or ""
    return isinstance(function, FunctionType) and not (
        machine.startswith("samedevice.runtime") and operator_of(function) is not None
    )


def operator_name(function: Callable[..., Any]) -> str:
    """What torch calls the operator: `mul` for `__rmul__`, `add_` for `__iadd__`."""
    name = str(getattr(function, "__name__", "")).partition(".")[0]  # an overload is called `add.Tensor`
    if name in _NAMES:
        return _NAMES[name]
    if found := re.fullmatch(r"__(\w+?)__", name):
        word = found[1]
        if word in _WORDS:
            return word
        if word[1:] in _WORDS:
            return f"{word[1:]}_" if word[0] == "i" else word[1:]
    return name


def named_tensors(
    function: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]
) -> list[tuple[str, torch.Tensor]]:
    """The tensors of a call with their names in the operator's schema: `self`, `mat2`, `tensors[1]`."""
    operator = operator_of(function)
    names = operator.overloads[0].names if operator is not None else ()
    found = []
    for index, value in enumerate(args):
        own = names[index] if index < len(names) else f"argument{index}"
        found += [(path, tensor) for path, _, tensor in tensors_of(value, own)]
    for key, value in kwargs.items():
        found += [(path, tensor) for path, _, tensor in tensors_of(value, key)]
    return found
