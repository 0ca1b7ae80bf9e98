"""What CUDA has no kernel for, and arguments that it takes otherwise than the CPU.

The CPU computes the values here.

Must guarantee: what CUDA refuses is refused in torch's words and with its exception, whether or not values
are known.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import torch

from samedevice.device_rules import TYPE_NAMES, lacking, no_kernel, nondeterministic, only_on_cpu
from samedevice.runtime.engine.determinism import check_determinism
from samedevice.runtime.state import Call, Operator

Terms = Callable[[Call], None]
"""Looks at a call on a GPU before it is run; raises what CUDA raises, or changes arguments that the CPU would
not take.
"""


@functools.cache
def cuda_terms(op: Operator) -> Terms | None:
    """The terms of an operator; nearly all have none."""
    if only_on_cpu(op.name):
        return refuse
    overloads = op.name.split(".")[1]
    if lacking(overloads) is not None:
        return _check_type
    if nondeterministic(overloads) is not None:
        return check_determinism
    return _TERMS.get(op.name)


def refuse(call: Call, backend: str = "CUDA") -> None:
    """The dispatcher finds no kernel for a tensor on a GPU, before anybody compares devices."""
    name = call.op.func.name().removesuffix(".default")
    raise NotImplementedError(no_kernel(name, backend))


def _check_type(call: Call) -> None:
    """What is empty reaches no kernel."""
    row = lacking(call.op.short)
    word = _WORDS.get(call.tensors[0].dtype)
    if row is not None and word in row.types and all(tensor.numel() for tensor in call.tensors):
        raise NotImplementedError(f"\"{row.kernel}\" not implemented for '{word}'")


_WORDS = {getattr(torch, name): word for name, word in TYPE_NAMES.items()}
"""Types as C++ names them; by the type itself, since every product asks."""


def _least_squares(call: Call) -> None:
    # aten/src/ATen/native/BatchLinearAlgebra.cpp, get_default_lstsq_driver.
    driver = call.kwargs.get("driver")
    if driver is not None and driver.lower() != "gels":
        raise RuntimeError("torch.linalg.lstsq: `driver` other than `gels` is not supported on CUDA")
    call.kwargs = {**call.kwargs, "driver": "gels"}


def _singular_values(call: Call) -> None:
    # BatchLinearAlgebra.cpp, meta of _linalg_svd: a driver is for CUDA only; all of them find the same
    # values.
    call.kwargs = {name: value for name, value in call.kwargs.items() if name != "driver"}


def _convolution(call: Call) -> None:
    # cuDNN takes the call and then finds that it has no such type. aten/src/ATen/cudnn/Descriptors.h
    word = _WORDS.get(call.tensors[0].dtype)
    if word == "Long":
        raise RuntimeError(f"getCudnnDataTypeFromScalarType() not supported for {word}")


_TERMS: dict[str, Terms] = {
    "aten.linalg_lstsq.default": _least_squares,
    "aten.linalg_lstsq.out": _least_squares,
    "aten._linalg_svd.default": _singular_values,
    "aten._linalg_svd.U": _singular_values,
    "aten.convolution.default": _convolution,
    "aten.convolution_overrideable.default": _convolution,
}
