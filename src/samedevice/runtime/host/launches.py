"""Launches of Triton kernels, as far as Python sees them.

Triton looks at no tensor's device: it launches on the current device whatever it gets pointers to
(triton/runtime/jit.py, `JITFunction.run`: `device = driver.active.get_current_device()`). A pointer that this
device cannot reach is refused by the launcher with words about a CPU tensor, or read all the same where the
driver has mapped it; which of the two, nobody can tell from outside, so a tensor of another GPU is a finding
of its own kind that is never raised. Memory of the host that is not pinned is always refused. No kernel runs
on a virtual machine: what it would write is not known.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from samedevice.events import EventKind
from samedevice.runtime.engine import Engine
from samedevice.runtime.patching import Patch, With
from samedevice.runtime.state import caller, current_machine, memory_of
from samedevice.runtime.tensors import seen_device


def _run(original: Callable[..., Any], engine: Engine) -> Callable[..., Any]:
    def run(self: Any, *args: Any, **kwargs: Any) -> Any:
        named = _tensors(self, args, kwargs)
        if kwargs.get("warmup") or not any(seen_device(tensor).type == "cuda" for _, tensor in named):
            return original(self, *args, **kwargs)
        _judge(_name(self), named, engine)
        for _, tensor in named:
            record = memory_of(tensor)
            if record is not None and record.virtual:
                record.shadow = None  # the kernel may have written there
        return None

    return run


def _judge(name: str, named: Sequence[tuple[str, torch.Tensor]], engine: Engine) -> None:
    state, recorder = engine.state, engine.tracker.recorder
    current = state.cuda(None)
    operands = [(argument, tensor, False) for argument, tensor in named]
    devices = [seen_device(tensor) for _, tensor in named]
    for position, ((argument, tensor), device) in enumerate(zip(named, devices, strict=True)):
        record = memory_of(tensor)
        if device.type == "cpu" and not (record is not None and record.pinned):
            text = f"Pointer argument (at {position}) cannot be accessed from Triton (cpu tensor?)"
            try:
                recorder.refused(EventKind.MISMATCH, f"triton.{name}", text, operands, devices, caller())
            except RuntimeError as error:
                raise _as_value_error(error) from None
            return
        if device.type == "cuda" and device != current:
            text = (
                f"triton.{name} is launched on the current device {current}, but {argument} is on {device}: "
                "Triton checks no devices, "
                "so this is an illegal access, a pointer that cannot be accessed, or a slow read across GPUs"
            )
            recorder.refused(EventKind.UNCHECKED, f"triton.{name}", text, operands, devices, caller())
            return


def _as_value_error(error: RuntimeError) -> ValueError:
    raised = ValueError(str(error))
    raised.samedevice_event = getattr(error, "samedevice_event", None)  # type: ignore[attr-defined]  # how callers find it again
    return raised


def _name(kernel: Any) -> str:
    """The function's own name; an autotuner holds the kernel."""
    while hasattr(kernel, "fn") and not hasattr(kernel, "__name__"):
        kernel = kernel.fn
    return str(getattr(kernel, "__name__", type(kernel).__name__))


def _tensors(kernel: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> list[tuple[str, torch.Tensor]]:
    """Tensor arguments by name.

    The launcher counts positions among the kernel's parameters, tensors come first there.
    """
    names = list(getattr(kernel, "arg_names", ()))
    names += [f"argument {position}" for position in range(len(names), len(args))]
    given = [*zip(names, args, strict=False), *kwargs.items()]
    return [(name, value) for name, value in given if isinstance(value, torch.Tensor)]


_LAUNCH = With(lambda: current_machine().part(Engine), _run)
PATCHES = (
    Patch(
        "triton.runtime.jit.JITFunction.run",
        _LAUNCH,
        "there is no GPU to launch a kernel on; the devices of its tensors are judged in Triton's place",
        package="triton.runtime.jit",
    ),
    Patch(
        "triton.runtime.autotuner.Autotuner.run",
        _LAUNCH,
        "it would time each configuration on a GPU",
        package="triton.runtime.autotuner",
    ),
)
