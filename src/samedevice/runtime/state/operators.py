"""Facts about operators that the engine needs on every call, read once from their schemas."""

from __future__ import annotations

import math
from enum import Enum
from functools import partial
from typing import Any

import torch

aten = torch.ops.aten


class Form(Enum):
    """How results relate to arguments."""

    VIEW = "view"
    """Results share the memory of an argument; nothing is computed."""
    INPLACE = "inplace"
    """Arguments are changed; what is returned are those arguments."""
    FRESH = "fresh"
    """Results are new memory."""
    MIXED = "mixed"
    """Some arguments are changed and new results returned, or an `out=` argument may be resized."""


_UNDECLARED_VIEWS = {
    "aten::_unsafe_view",
    "aten::unsafe_split",
    "aten::unsafe_split_with_sizes",
    "aten::unsafe_chunk",
    "aten::lift_fresh",
    "aten::_reshape_alias",
    "aten::_conj",
    "aten::_neg_view",
}
# They return self without writing to it, or make a new owner of the same memory.
_OVERWRITES = {
    "zero_",
    "_foreach_copy_",
    "_foreach_zero_",
    "fill_",
    "copy_",
    "normal_",
    "uniform_",
    "random_",
    "bernoulli_",
    "exponential_",
    "cauchy_",
    "log_normal_",
    "geometric_",
    "trunc_normal_",
}
# Factories with a size first, and what computing them would cost.
_SIZED_FACTORIES = {
    "empty",
    "zeros",
    "ones",
    "full",
    "rand",
    "randn",
    "randint",
    "empty_strided",
    "new_empty",
    "new_zeros",
    "new_ones",
    "new_full",
    "new_empty_strided",
}


_UNDECLARED_WRITES = {
    name: {"running_mean", "running_var"}
    for name in (
        "aten::native_batch_norm",
        "aten::batch_norm_gather_stats",
        "aten::batch_norm_gather_stats_with_counts",
    )
}
"""Arguments that are changed although the schema does not say so."""
_FUSED_ON_CUDA = {"aten::_fused_rms_norm"}
"""Made of other operators on every device but CUDA."""
_COLLECTIVE = {"c10d", "_c10d_functional", "_dtensor"}

SHAPE_ONLY = {
    "zeros_like", "ones_like", "empty_like", "full_like", "rand_like", "randn_like", "randint_like",
    "new_zeros", "new_ones", "new_empty", "new_full", "new_empty_strided",
}  # fmt: skip
"""Their results depend on the shape of the argument, not on its values."""

INDEX_OPERATORS = {
    "aten.index.Tensor", "aten._unsafe_index.Tensor", "aten.index_put_.default", "aten.index_put.default",
    "aten._index_put_impl_.default", "aten._unsafe_index_put.default",
}  # fmt: skip
"""Their second argument is a list of indices or masks."""


class Operator:
    """Facts about one overload."""

    __slots__ = (
        "argument_names",
        "collective",
        "composite",
        "dynamic",
        "dynamic_shape",
        "factory",
        "form",
        "func",
        "in_parts",
        "name",
        "overwrites",
        "random",
        "returned",
        "returns_tensors",
        "short",
        "size_at",
        "sized",
        "trains_at",
        "uncounted",
        "written",
    )

    def __init__(self, func: Any) -> None:
        self.func = func
        schema = func._schema
        self.name = str(func)
        """As the dispatcher prints it: `aten.mul.Tensor`."""
        self.short = schema.name.split("::")[-1]
        self.argument_names = [argument.name for argument in schema.arguments]
        undeclared = _UNDECLARED_WRITES.get(schema.name, set())
        self.written = [
            i
            for i, a in enumerate(schema.arguments)
            if a.name in undeclared or (a.alias_info is not None and a.alias_info.is_write)
        ]
        self.trains_at = (
            self.argument_names.index("training")
            if undeclared and "training" in self.argument_names
            else None
        )
        """Position of the argument without which nothing undeclared is written."""
        self.returned = _returned_arguments(schema)
        """For an operator that returns its changed arguments: their positions."""
        self.composite = (
            _has_kernel(func, "CompositeImplicitAutograd")
            and not _has_kernel(func, "CPU")
            and schema.name not in _FUSED_ON_CUDA
        )
        """Made of other operators on every device; reaches a mode only where autograd does not take it apart
        (inference mode). What has a kernel of its own on the CPU has one on CUDA as well: `silu_backward`.
        """
        self.collective = func.namespace in _COLLECTIVE
        """Reaches other processes."""
        self.in_parts = (
            partial(func._op_dk, _key_of_parts(func))
            if func.namespace == "fsdp"
            else getattr(func, "impl_aten", None)
        )
        """A kernel that is the same for every device and made of other operators (`_fsdp_collectives.py`,
        torch's primitives).
        """
        self.form = _form(schema)
        self.uncounted = self.form is Form.INPLACE and self.short.startswith("_foreach_")
        """Whether autograd leaves it to the kernels to count a write, which they do only above every mode."""
        tags = func.tags
        self.dynamic = torch.Tag.dynamic_output_shape in tags or torch.Tag.data_dependent_output in tags
        self.dynamic_shape = self.dynamic and self.name not in INDEX_OPERATORS
        """Only values tell the shape of the results; indexing is not among them, once masks have become
        indices.
        """
        self.random = torch.Tag.nondeterministic_seeded in tags
        self.returns_tensors = not schema.returns or any("Tensor" in str(r.type) for r in schema.returns)
        self.overwrites = self.short in _OVERWRITES
        self.factory = self.short in _SIZED_FACTORIES
        self.sized = "SymInt" in str(schema)
        """Takes sizes, so that a small tensor may become a large one: `repeat`, `constant_pad_nd`,
        `slice_backward`.
        """
        self.size_at = 1 if self.short in ("full_like",) or self.short.startswith("new_") else 0
        if self.short == "randint":
            self.size_at = self.argument_names.index("size")

    def writes(self, args: tuple[Any, ...]) -> list[int]:
        """Positions of the arguments that a call changes."""
        return self.written if self.trains_at is None or args[self.trains_at] else []

    def named(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[tuple[str, torch.Tensor, bool]]:
        """(argument name, tensor, written) of every tensor of a call, in schema order."""
        found: list[tuple[str, torch.Tensor, bool]] = []
        writes = self.writes(args)
        for position, name in enumerate(self.argument_names):
            value = args[position] if position < len(args) else kwargs.get(name)
            written = position in writes
            if isinstance(value, torch.Tensor):
                found.append((name, value, written))
            elif isinstance(value, (list, tuple)):
                found.extend(
                    (f"{name}[{i}]", part, written)
                    for i, part in enumerate(value)
                    if isinstance(part, torch.Tensor)
                )
        return found

    def factory_numel(self, args: tuple[Any, ...]) -> int:
        """Number of elements that a sized factory makes; 0 when the size cannot be read."""
        size = args[self.size_at] if self.size_at < len(args) else ()
        return math.prod(size) if isinstance(size, (list, tuple)) else 0


def _has_kernel(func: Any, key: str) -> bool:
    found: bool = torch._C._dispatch_has_kernel_for_dispatch_key(func.name(), key)
    return found


def _key_of_parts(func: Any) -> Any:
    keys = torch._C.DispatchKey
    return keys.CPU if _has_kernel(func, "CPU") else keys.CompositeExplicitAutograd


def _returned_arguments(schema: Any) -> list[int]:
    sets = [
        a.alias_info.before_set if a.alias_info is not None and a.alias_info.is_write else None
        for a in schema.arguments
    ]
    return [
        sets.index(r.alias_info.before_set)
        for r in schema.returns
        if r.alias_info and r.alias_info.before_set in sets
    ]


def _form(schema: Any) -> Form:
    if schema.name in _UNDECLARED_VIEWS:
        return Form.VIEW
    if schema.name in _UNDECLARED_WRITES:
        return Form.MIXED
    written = [a for a in schema.arguments if a.alias_info is not None and a.alias_info.is_write]
    if written:
        if any(a.kwarg_only for a in written):
            return Form.MIXED
        aliased = all(r.alias_info is not None for r in schema.returns)
        return Form.INPLACE if aliased else Form.MIXED
    if any(r.alias_info is not None for r in schema.returns):
        return Form.VIEW
    return Form.FRESH


_known: dict[Any, Operator] = {}


def operator(func: Any) -> Operator:
    """The facts of an overload; read once."""
    found = _known.get(func)
    if found is None:
        found = _known[func] = Operator(func)
    return found
