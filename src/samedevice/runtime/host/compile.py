"""Compilers on a virtual machine: code runs eagerly, and the person is told once.

`torch.compile` produces code for a device that is not there; device placement is the same without it. For
TorchScript see `torchscript`.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from typing import Any, NoReturn
from weakref import WeakSet

import torch
import torch.utils._python_dispatch
from torch._ops import HigherOrderOperator

from samedevice.errors import UnsupportedFeatureError
from samedevice.runtime.engine import VirtualDeviceMode, has_kernel_on_cuda, kernel_on_cuda, traced
from samedevice.runtime.patching import Constant, Patch
from samedevice.runtime.state import MachineState, current_machine

_told: WeakSet[MachineState] = WeakSet()
"""The machines in which the person was told."""


def _tell(machine: MachineState, name: str) -> None:
    if machine not in _told:
        _told.add(machine)
        print(f"samedevice: {name} runs eagerly on a virtual machine", file=sys.stderr)


def _compile(original: Any) -> Any:
    machine = current_machine()

    def compile(model: Any = None, **options: Any) -> Any:
        if model is None:
            return lambda inner: compile(inner, **options)
        if options.get("disable"):
            return model
        _tell(machine, "torch.compile")
        if not isinstance(model, torch.nn.Module) or hasattr(model, "_orig_mod"):
            return model
        # The wrapper of a compiled module shows: in its type, and as `_orig_mod.` before each name of its
        # state.
        return torch.compiler.disable(model)  # type: ignore[no-untyped-call]

    return compile


def _compile_module(original: Any) -> Any:
    machine = current_machine()

    def compile_module(self: torch.nn.Module, *args: Any, **options: Any) -> None:
        _tell(machine, "Module.compile")

    return compile_module


def _refuse_dynamo(*args: Any, **options: Any) -> NoReturn:
    raise UnsupportedFeatureError(
        "Dynamo does not run on a virtual machine. torch.compile runs code eagerly here; torch.export.export "
        "works with strict=False, and torch.fx.experimental.proxy_tensor.make_fx."
    )


def _run_eagerly(dispatch: Callable[..., Any]) -> Callable[..., Any]:
    """Operators that take functions (`torch.cond`) run as their parts, which autograd sees.

    Torch's own way to it is a compiler.
    """

    def call(self: HigherOrderOperator, /, *args: Any, **kwargs: Any) -> Any:
        if traced() or torch._C._are_functorch_transforms_active() or not has_kernel_on_cuda(self):
            return dispatch(self, *args, **kwargs)
        return kernel_on_cuda(self)(*args, **kwargs)

    return call


def _other_mode() -> Any:
    """The innermost dispatch mode, for torch's control flow, which refuses to run under any.

    The machine is not one that it means.
    """
    mode = _current_mode()
    return None if isinstance(mode, VirtualDeviceMode) else mode


@contextlib.contextmanager
def _disable_other_modes() -> Iterator[Any]:
    """No dispatch mode is active but the machine.

    That is no mode of a script that tracers must be rid of.
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
_DYNAMO = "Dynamo does not run on a virtual machine, and is refused by name"
_EAGERLY = "a compiler would make code for a device that is not there; code runs eagerly"
PATCHES = (
    Patch("torch.compile", _compile, _EAGERLY),
    Patch(
        "torch.nn.modules.module._has_any_global_hook",
        Constant(lambda: False),
        "the wrapper of a compiled module would warn at each call of the machine's own hook for all modules",
    ),
    Patch("torch.nn.Module.compile", _compile_module, _EAGERLY),
    Patch(
        "torch._dynamo.eval_frame.OptimizeContext.__init__",
        Constant(_refuse_dynamo),
        _DYNAMO,
        package="torch._dynamo.eval_frame",
    ),
    Patch(
        "torch.export._trace._export_to_torch_ir",
        Constant(_refuse_dynamo),
        _DYNAMO,
        package="torch.export._trace",
    ),
    Patch(
        "torch._ops.HigherOrderOperator.__call__",
        _run_eagerly,
        "torch's own way to operators that take functions is a compiler",
    ),
    Patch(
        "torch._higher_order_ops._get_current_dispatch_mode",
        Constant(_other_mode),
        "torch's control flow refuses to run under any dispatch mode, and the machine is one",
        every="torch._higher_order_ops.",
    ),
    Patch(
        "torch.utils._python_dispatch._disable_current_modes",
        Constant(_disable_other_modes),
        "tracers leave all dispatch modes, and with the machine its devices would be gone",
        every="torch.",
    ),
)
