"""Computes what small virtual tensors hold, on the CPU."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from samedevice.provenance import Site
from samedevice.runtime.cuda import wait_for_copy
from samedevice.runtime.engine.cuda_numbers import WHERE_THE_CPU_REFUSES
from samedevice.runtime.state import (
    ASSUMED_FLOAT,
    CPU,
    SHAPE_ONLY,
    Call,
    Memory,
    Operator,
    memory_of,
    tensors_in,
    value_of,
)
from samedevice.runtime.tracking import ONLY_ON_CUDA, Tracker, as_dtype, pass_on_assumptions, to_value

Tensor = torch.Tensor

# What a CPU kernel says of something that only it cannot do.
_VERDICT_ON_CUDA_ONLY = (
    "not implemented for '",
    "not implemented on the CPU",
    "not supported on CPU",
    "on CPU does not support",
    "Could not run",
    "NYI",
    "FFT doesn't support tensors of type: Half",
    "FFT doesn't support tensors of type: ComplexHalf",
)
_NOT_IMPLEMENTED = re.compile(r"not implemented for '(?P<type>\w+)'")
_NAMES_THE_CPU = re.compile(r'(_vml)?_cpu_?(?=")')
_INTEGERS = frozenset({"Byte", "Char", "Short", "Int", "Long"})
_TYPES_OF_BOTH = _INTEGERS | {"Bool", "Float", "Double", "ComplexFloat", "ComplexDouble"}
"""Types for which CUDA has a kernel only where the CPU has one; the others (half precision, float8) are
CUDA's own field.
"""
_CUDA_ALSO: Mapping[str, frozenset[str]] = {
    "abs": frozenset({"Bool"}),
    "histc": _INTEGERS,
    "trace": frozenset({"Bool"}),
}
"""Except these operators. Source: `dtypes` and `dtypesIfCUDA` of torch's operator database; a test compares.
"""

_COMPLEX_HALF_TOO = frozenset(
    """
    acos acosh angle asin asinh atan atanh convolution convolution_backward cos cosh diag div exp _fft_c2c
    _fft_c2r _fft_r2c lerp log
    logaddexp mean nansum pow prod rsqrt sigmoid sigmoid_backward sin sinh sqrt sum tan tanh tanh_backward
    trace
    """.split()
)
"""What CUDA can with complex numbers in half precision and the CPU cannot. Source: as above."""

_WrongValues: type[RuntimeError] = torch.linalg.LinAlgError  # type: ignore[attr-defined]
# not listed by torch
"""Says that a matrix is singular, or the like. Of values that nobody computed it says nothing about the
program.
"""


_JUDGE_VALUES = ("allclose", "equal")
"""Operators that answer in Python what values are."""


class Calculation:
    """Runs operators on values."""

    def __init__(self, tracker: Tracker) -> None:
        self._tracker = tracker

    def results(self, call: Call, *, force: bool) -> Any:
        """Results with values.

        With `force`, unknown arguments stand in by their shape and floats in the results stay unknown.

        Returns NotImplemented when the CPU has no kernel for what CUDA can do; the caller then goes on
        without values.
        """
        op = call.op
        assumed = False
        for record in call.records:
            if record.__class__ is Memory and record.uncomputed:
                assumed = True
        try:
            values, options = _operands(call)
            result = _drawing(call, tuple(values), options)
        except (RuntimeError, NotImplementedError) as error:
            if assumed and isinstance(error, _WrongValues):
                return NotImplemented
            if not _only_the_cpu_cannot(error, op):
                raise
            result = _in_another_type(call, *_operands(call))
            if result is NotImplemented:
                return NotImplemented
        if not op.returns_tensors:
            if assumed and op.short in _JUDGE_VALUES:
                self._tracker.recorder.read_assumed(sys._getframe(1), number=False)
                # An unknown boolean is false, also that of `isclose(...).all()`; the stand-ins would be
                # close.
                return result if op.short == "equal" else call.args[0] is call.args[1]
            return result
        forget = force and op.short not in SHAPE_ONLY
        return self._wrap(result, call.target, self._tracker.site(), assumed=assumed, forget_floats=forget)

    def in_place(self, call: Call, written: Sequence[torch.Tensor]) -> bool:
        """Change the values of `written`; False when the CPU cannot."""
        values, options = _operands(call)
        if not self.change(call, values, options):
            return False
        pass_on_assumptions(call.op, call.tensors, written)
        return True

    def change(self, call: Call, values: Sequence[Any], options: dict[str, Any]) -> bool:
        """Run an operator that writes into values; False when the CPU cannot."""
        try:
            _drawing(call, tuple(values), options)
        except (RuntimeError, NotImplementedError) as error:
            if not _only_the_cpu_cannot(error, call.op):
                raise
            return _in_another_type(call, values, options) is not NotImplemented
        return True

    def into_out(self, call: Call, outs: set[str]) -> Any:
        """Compute into the values of `out=` arguments, which may be resized.

        Those values, or NotImplemented.
        """
        values, options = _operands(call)
        if not self.change(call, values, options):
            return NotImplemented
        pass_on_assumptions(
            call.op, call.tensors, [tensor for name in outs for tensor in tensors_in(call.kwargs[name])]
        )
        return [value for name in outs for value in tensors_in(options[name])]

    def scalar(self, op: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """What `Tensor.item` reads."""
        tensor = args[0]
        record = memory_of(tensor)
        if record is not None and record.uncomputed:
            self._tracker.recorder.read_assumed(sys._getframe(1), number=_is_float(tensor))
        if record is None or not record.virtual:
            return op.func(tensor)
        wait_for_copy(record.device)
        value = value_of(tensor, record)
        if value is not None:
            return op.func(value)
        if tensor.dtype == torch.bool:
            return False
        return ASSUMED_FLOAT if tensor.dtype.is_floating_point or tensor.dtype.is_complex else 0

    def _wrap(
        self, result: Any, target: torch.device, site: Site | None, *, assumed: bool, forget_floats: bool
    ) -> Any:
        if isinstance(result, Tensor):
            # On the host too the result is a carrier: what descends from a carrier must be one for autograd.
            made = self._tracker.with_value(result, target, site, assumed=assumed)
            if forget_floats and (result.dtype.is_floating_point or result.dtype.is_complex):
                record = memory_of(made)
                assert record is not None
                record.shadow = None
            return made
        if isinstance(result, (tuple, list)):
            parts = [
                self._wrap(part, target, site, assumed=assumed, forget_floats=forget_floats)
                for part in result
            ]
            return type(result)(parts)
        return result


def _operands(call: Call) -> tuple[list[Any], dict[str, Any]]:
    """What the CPU reads, and writes into, for the arguments of a call."""
    options = _on_host({name: to_value(value) for name, value in call.kwargs.items()})
    return [to_value(value) for value in call.args], options


def _in_another_type(call: Call, values: Sequence[Any], options: dict[str, Any]) -> Any:
    """CUDA accepts what this CPU kernel refuses: try it in a type that the CPU has.

    An operator that writes does so into copies, of which the numbers come back. Only where the refused kernel
    has written nothing yet: one that goes element by element asks for the type before it begins.
    """
    op = call.op
    changed = op.writes(call.args)
    outs = {op.argument_names[at] for at in changed} & options.keys()
    written = _at(changed, outs, values, options)
    if written and (len(written) > 1 or torch.Tag.pointwise not in op.func.tags):
        return NotImplemented
    types = [tensor.dtype for value in values for tensor in tensors_in(value)]
    # Integers beside other numbers make a result of the others' type.
    numbers = [dtype for dtype in types if dtype.is_floating_point or dtype.is_complex]
    original = next(iter([*numbers, *types]), None)
    for dtype in _wider(original):
        others = [_in_type(value, dtype) for value in values]
        named = {name: _in_type(value, dtype) if name in outs else value for name, value in options.items()}
        try:
            result = _drawing(call, tuple(others), named)
        except (RuntimeError, NotImplementedError):
            continue
        if written:
            _take(written[0], _at(changed, outs, others, named)[0])
            return result
        if original is None:
            return result
        if isinstance(result, (list, tuple)):
            return type(result)([_back(part, dtype, original) for part in result])
        return _back(result, dtype, original)
    return NotImplemented


def _in_type(value: Any, dtype: torch.dtype) -> Any:
    """An argument in a wider type, or in the complex or the real one of that width: each kind remains."""
    if isinstance(value, (list, tuple)):
        return type(value)([_in_type(part, dtype) for part in value])
    if not isinstance(value, Tensor):
        return value
    return as_dtype(value, dtype.to_complex() if value.is_complex() else dtype.to_real())


def _at(
    positions: Sequence[int], names: set[str], values: Sequence[Any], options: Mapping[str, Any]
) -> list[torch.Tensor]:
    """The tensors of some arguments, by position or by name."""
    found = [values[at] for at in positions if at < len(values)]
    return list(tensors_in([*found, *(options[name] for name in sorted(names))]))


def _take(tensor: torch.Tensor, copy: torch.Tensor) -> None:
    if tensor.size() != copy.size():
        tensor.resize_(copy.size())
    tensor.copy_(copy)


def _back(result: Any, wider: torch.dtype, original: torch.dtype) -> Any:
    if not isinstance(result, Tensor):
        return result
    if result.dtype == wider:
        return as_dtype(result, original)
    if original.is_floating_point and result.dtype == wider.to_complex():
        return as_dtype(result, original.to_complex())  # a complex number beside it, or a transform
    if original.is_complex and result.dtype == wider.to_real():
        return as_dtype(result, original.to_real())
    return result


def _drawing(call: Call, values: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """Run the operator on values; what it draws on a GPU comes from the engine that the call was given."""
    op, engine = call.op, call.drawn
    if engine is None:
        own = ONLY_ON_CUDA.get(op.func)
        return own(*values, **options) if own is not None else _on_values(op, values, options)
    if "generator" in op.argument_names:
        position = op.argument_names.index("generator")
        if position < len(values):
            values = (*values[:position], engine, *values[position + 1 :])
        else:
            options = {**options, "generator": engine}
        return op.func(*values, **options)
    # Kernels such as native_dropout draw from the CPU's default engine: lend it the state.
    default = torch.default_generator
    kept = default.get_state()
    default.set_state(engine.get_state())
    try:
        return op.func(*values, **options)
    finally:
        default.set_state(kept)


def _on_values(op: Operator, values: Sequence[Any], options: Mapping[str, Any]) -> Any:
    try:
        return made_whole(op, values, options)
    except RuntimeError as error:
        refusal = WHERE_THE_CPU_REFUSES.get(op.func)
        if refusal is None or refusal.words not in str(error):
            raise
    return refusal.computed(*values, **options)


def made_whole(op: Operator, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Run an operator on values of the host.

    Below a dispatch mode torch takes conjugates as resolved, and a C++ body of several operators makes new
    ones: `linalg.pinv` of complex numbers then has other numbers.
    """
    if not any(tensor.is_complex() for tensor in tensors_in(args)):
        return op.func(*args, **kwargs)
    lazy = torch._C.DispatchKey.Conjugate, torch._C.DispatchKey.Negative
    excluded = torch._C._dispatch_tls_local_exclude_set()
    for key in lazy:
        excluded = excluded.remove(key)
    with torch._C._ForceDispatchKeyGuard(torch._C._dispatch_tls_local_include_set(), excluded):
        return op.func(*args, **kwargs)


def _is_float(tensor: torch.Tensor) -> bool:
    return tensor.dtype.is_floating_point or tensor.dtype.is_complex


def _on_host(options: dict[str, Any]) -> dict[str, Any]:
    if options.get("device") is not None:
        options["device"] = CPU
    if options.get("pin_memory"):
        options["pin_memory"] = False
    return options


def _wider(dtype: torch.dtype | None) -> tuple[torch.dtype, ...]:
    """Types that hold every number of a type."""
    if dtype is not None and dtype.is_complex:
        return torch.complex64, torch.complex128
    return (torch.float32, torch.float64) if dtype is None or dtype.is_floating_point else (torch.float64,)


def _only_the_cpu_cannot(error: Exception, op: Operator) -> bool:
    """Whether CUDA can what the CPU cannot.

    If not, the error was raised of true values, and its words stand.
    """
    if _lacks_kernel_on_cpu(error, op):
        return True
    error.samedevice_of_values = True  # type: ignore[attr-defined]  # for whoever rewords errors of C++
    return False


def _lacks_kernel_on_cpu(error: Exception, op: Operator) -> bool:
    """Whether CUDA has a kernel where the CPU has none; if not, the error stands, in CUDA's words."""
    text = str(error)
    if not any(mark in text for mark in _VERDICT_ON_CUDA_ONLY):
        return False
    missing = _NOT_IMPLEMENTED.search(text)
    if missing is not None and missing["type"] == "ComplexHalf":
        return _base_name(op) in _COMPLEX_HALF_TOO
    if (
        missing is None
        or missing["type"] not in _TYPES_OF_BOTH
        or missing["type"] in _CUDA_ALSO.get(_base_name(op), ())
    ):
        return True
    error.args = (_NAMES_THE_CPU.sub("_cuda", text),)
    return False


def _base_name(op: Operator) -> str:
    name: str = op.short
    return name.removeprefix("_foreach_").rstrip("_")
