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


@dataclass(frozen=True, slots=True)
class Overload:
    """One schema of an operator."""

    names: tuple[str, ...]
    written: frozenset[str]
    schema: Any
    decided: bool
    """Whether what is written hangs on other arguments (`training`), and not on the schema alone."""


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

    def written(self, args: Sequence[Any], kwargs: dict[str, Any]) -> list[Any]:
        """The arguments that the call writes to: tensors, and lists of them."""
        found = {id(kwargs.get("out")): kwargs["out"]} if kwargs.get("out") is not None else {}
        given = kwargs.keys() - {"out"}
        for each in self.overloads:
            if not given.issubset(each.names) or len(args) > len(each.names):
                continue
            values = {**dict(zip(each.names, args, strict=False)), **kwargs}
            names = _decided(each, values) if each.decided else each.written
            found |= {
                id(values[name]): values[name]
                for name in names
                if any(True for _ in tensors_of(values.get(name)))
            }
        return list(found.values())


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
        written = frozenset(each for each in names if info.is_mutable(each))
        said = {
            each.name for each in schema.arguments if each.alias_info is not None and each.alias_info.is_write
        }
        if only is None and any(each.kwarg_only and each.name in said for each in schema.arguments):
            continue  # for a call with `out`
        overloads.append(Overload(names, written, schema, bool(written - said)))
    return Operator(name, tuple(overloads), draws, in_parts) if overloads else None


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
