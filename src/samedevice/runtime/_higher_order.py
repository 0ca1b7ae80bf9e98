"""Operators whose arguments are operators or functions: `run_dtensor_rng_op`, `cond`, `while_loop`.

Must guarantee: what runs is the code that torch would run on CUDA; the operators inside come back to the machine one by one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch._ops import HigherOrderOperator, resolve_key

from samedevice.errors import UnsupportedFeatureError


def kernel_on_cuda(operator: HigherOrderOperator) -> Callable[..., Any]:
    """What torch has for CUDA; an error of ours where that is no Python."""
    try:
        kernel = operator.py_kernels[resolve_key(operator, torch._C.DispatchKey.CUDA)]
    except (KeyError, NotImplementedError):
        kernel = None
    if kernel is None or not callable(kernel):
        raise UnsupportedFeatureError(f"torch.ops.higher_order.{operator} is not supported on a virtual machine.")
    return kernel
