"""torch's own factories, for the engine's own tensors.

Scripts replace them for a while: DeepSpeed's `zero.Init` makes `torch.empty` and its kin work on the GPU in
half precision.
"""

from __future__ import annotations

import importlib
import sys
from types import FunctionType
from typing import Any

import torch

arange = torch.arange
empty = torch.empty
full = torch.full
ones = torch.ones
tensor = torch.tensor
zeros = torch.zeros


def load_compiler() -> None:
    """Load `torch._dynamo`, which torch's functions for shapes load when they are first called.

    It reads the signature of `torch.Tensor.__new__`. Where a script has put a function of its own there, it
    does not load, and after such a try it never does.
    """
    if "torch._dynamo" in sys.modules:
        return
    tensors: Any = torch.Tensor
    theirs = tensors.__new__
    if not isinstance(theirs, FunctionType) or hasattr(theirs, "__wrapped__"):
        return  # torch's own, or the machine's in its place: their signature is not known

    def new(*args: Any, **kwargs: Any) -> Any:
        return theirs(*args, **kwargs)

    tensors.__new__ = new
    try:
        importlib.import_module("torch._dynamo")
    finally:
        tensors.__new__ = theirs


__all__ = ["arange", "empty", "full", "load_compiler", "ones", "tensor", "zeros"]
