"""Compilers on a virtual machine: code runs eagerly, and the person is told once.

`torch.compile` produces code for a device that is not there; device placement is the same without it. For
TorchScript see `torchscript`.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

import torch
import torch.utils._python_dispatch
from torch._ops import HigherOrderOperator

from samedevice.errors import UnsupportedFeatureError
from samedevice.runtime.engine import VirtualDeviceMode, has_kernel_on_cuda, kernel_on_cuda, traced
from samedevice.runtime.patching import Patches, rebind_everywhere, when_imported


def install_compile(patches: Patches) -> None:
    """Make `torch.compile` hand back code that runs eagerly."""
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
        # The wrapper of a compiled module shows: in its type, and as `_orig_mod.` before each name of its
        # state.
        return torch.compiler.disable(model)  # type: ignore[no-untyped-call]

    def compile_module(self: torch.nn.Module, *args: Any, **options: Any) -> None:
        tell("Module.compile")

    patches.attribute(torch, "compile", compile)
    # Such a wrapper would warn at each call that there are hooks for all modules: the machine's own.
    patches.attribute(torch.nn.modules.module, "_has_any_global_hook", lambda: False)
    patches.attribute(torch.nn.Module, "compile", compile_module)

    when_imported(
        patches,
        {
            "torch._dynamo.eval_frame": lambda m: patches.attribute(
                m.OptimizeContext, "__init__", _refuse_dynamo
            ),
            "torch.export._trace": lambda m: patches.attribute(m, "_export_to_torch_ir", _refuse_dynamo),
        },
    )
    patches.attribute(HigherOrderOperator, "__call__", _run_eagerly(HigherOrderOperator.__call__))
    rebind_everywhere(patches, "_get_current_dispatch_mode", _other_mode, "torch._higher_order_ops.")
    rebind_everywhere(patches, "_disable_current_modes", _disable_other_modes, "torch.")


def _refuse_dynamo(*args: Any, **options: Any) -> NoReturn:
    raise UnsupportedFeatureError(
        "Dynamo does not run on a virtual machine. torch.compile runs code eagerly here; torch.export.export "
        "works with strict=False, and torch.fx.experimental.proxy_tensor.make_fx."
    )


def _run_eagerly(dispatch: Callable[..., Any]) -> Callable[..., Any]:
    """Operators that take functions (`torch.cond`) run as their parts, which autograd sees; torch's own way
    to it is a compiler.
    """

    def call(self: HigherOrderOperator, /, *args: Any, **kwargs: Any) -> Any:
        if traced() or torch._C._are_functorch_transforms_active() or not has_kernel_on_cuda(self):
            return dispatch(self, *args, **kwargs)
        return kernel_on_cuda(self)(*args, **kwargs)

    return call


def _other_mode() -> Any:
    """The innermost dispatch mode, for torch's control flow, which refuses to run under any; the machine is
    not one that it means.
    """
    mode = _current_mode()
    return None if isinstance(mode, VirtualDeviceMode) else mode


@contextlib.contextmanager
def _disable_other_modes() -> Iterator[Any]:
    """No dispatch mode is active but the machine, which is no mode of a script that tracers must be rid
    of.
    """
    modes = [
        torch._C._get_dispatch_stack_at(position) for position in range(torch._C._len_torch_dispatch_stack())
    ]
    machine = next(
        (mode for mode in reversed(modes) if isinstance(mode, VirtualDeviceMode)), contextlib.nullcontext()
    )
    with _disable_modes() as disabled, machine:
        yield disabled


_current_mode: Any = torch.utils._python_dispatch._get_current_dispatch_mode
_disable_modes: Any = torch.utils._python_dispatch._disable_current_modes
