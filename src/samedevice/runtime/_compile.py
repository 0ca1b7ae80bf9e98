"""Compilers on a virtual machine: code runs eagerly, and the person is told once.

`torch.compile` and `torch.jit.script` produce code for a device that is not there; device placement is the same without them.
"""

from __future__ import annotations

import sys
from typing import Any

import torch

from samedevice.runtime._patches import Patches


def install_compile(patches: Patches) -> None:
    """Make `torch.compile` and `torch.jit.script` hand back code that runs eagerly."""
    told = False

    def tell(name: str) -> None:
        nonlocal told
        if not told:
            told = True
            print(f"samedevice: {name} runs eagerly on a virtual machine", file=sys.stderr)

    def compile(model: Any = None, **options: Any) -> Any:
        if model is None:
            return lambda inner: compile(inner, **options)
        if options.get("disable"):
            return model
        tell("torch.compile")
        if not isinstance(model, torch.nn.Module) or hasattr(model, "_orig_mod"):
            return model
        # The wrapper of a compiled module shows: in its type, and as `_orig_mod.` before each name of its state.
        return torch.compiler.disable(model)  # type: ignore[no-untyped-call]

    def compile_module(self: torch.nn.Module, *args: Any, **options: Any) -> None:
        tell("Module.compile")

    def script(obj: Any = None, *args: Any, **options: Any) -> Any:
        return (lambda inner: inner) if obj is None else obj

    patches.attribute(torch, "compile", compile)
    # Such a wrapper would warn at each call that there are hooks for all modules: the machine's own.
    patches.attribute(torch.nn.modules.module, "_has_any_global_hook", lambda: False)
    patches.attribute(torch.nn.Module, "compile", compile_module)
    patches.attribute(torch.jit, "script", script)
