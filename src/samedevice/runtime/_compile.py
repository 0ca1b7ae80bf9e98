"""Compilers on a virtual machine: code runs eagerly, and the person is told once.

`torch.compile` and `torch.jit.script` produce code for a device that is not there; device placement is the same without them.
"""

from __future__ import annotations

import sys
from typing import Any

import torch

from samedevice.runtime._patches import Patches


def install_compile(patches: Patches) -> None:
    """Make `torch.compile` and `torch.jit.script` hand back what they were given."""
    told = False

    def tell(name: str) -> None:
        nonlocal told
        if not told:
            told = True
            print(f"samedevice: {name} runs eagerly on a virtual machine", file=sys.stderr)

    def compile(model: Any = None, **options: Any) -> Any:
        tell("torch.compile")
        return (lambda inner: inner) if model is None else model

    def compile_module(self: torch.nn.Module, *args: Any, **options: Any) -> None:
        tell("Module.compile")

    def script(obj: Any = None, *args: Any, **options: Any) -> Any:
        return (lambda inner: inner) if obj is None else obj

    patches.attribute(torch, "compile", compile)
    patches.attribute(torch.nn.Module, "compile", compile_module)
    patches.attribute(torch.jit, "script", script)
