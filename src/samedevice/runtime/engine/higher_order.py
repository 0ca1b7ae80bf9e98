"""Operators whose arguments are operators or functions: `run_dtensor_rng_op`, `cond`, `while_loop`.

Must guarantee: what runs is the code that torch would run on CUDA; the operators inside come back to the
machine one by one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch._ops import HigherOrderOperator, resolve_key

from samedevice.errors import UnsupportedFeatureError


def kernel_on_cuda(operator: HigherOrderOperator) -> Callable[..., Any]:
    """What torch has for CUDA; an error of ours where that is no Python."""
    kernel = _kernel(operator)
    if kernel is None:
        raise UnsupportedFeatureError(
            f"torch.ops.higher_order.{operator} is not supported on a virtual machine."
        )
    return kernel


def has_kernel_on_cuda(operator: HigherOrderOperator) -> bool:
    """Whether torch has Python for CUDA."""
    return _kernel(operator) is not None


def _kernel(operator: HigherOrderOperator) -> Callable[..., Any] | None:
    try:
        kernel = operator.py_kernels[resolve_key(operator, torch._C.DispatchKey.CUDA)]
    except (KeyError, NotImplementedError):
        return None
    return kernel if callable(kernel) else None
