"""Gradients go back to where their tensor is.

C++ sees one device for all virtual tensors, and autograd refuses a gradient that is meta for a tensor that is
not.

Note [Host parameters before a refused forward]
A module left on the host gets inputs from a GPU: real hardware refuses, and so does the machine, which then
goes on. Its backward would hand a meta gradient to a real host parameter, an error inside autograd. So a
trainable host parameter becomes a carrier with the host as its device, with the same bytes, right before its
module is called with tensors of a GPU.

Note [Host parameters that a graph holds]
A parameter becomes a carrier by a swap of what Python's object stands for. A graph of an earlier call, with
inputs from the host, holds what was there before, and its gradient would go where nobody looks: such a
parameter stays as it is. A backward that needs the carrier then ends with torch's own error. A gradient that
is there already becomes a carrier, too.
"""

from __future__ import annotations

import weakref
from typing import Any

import torch
from torch.nn.modules.module import register_module_forward_pre_hook

from samedevice.runtime.engine import Engine, Passing, wrapped_device
from samedevice.runtime.patching import Change
from samedevice.runtime.state import (
    CPU,
    Memory,
    as_torch,
    carrier,
    current_machine,
    memory_of,
    raw_is_meta,
    storage_of,
    this_thread,
    value_of,
)
from samedevice.runtime.tensors.tensor import move, seen_device


def _before_forward(module: torch.nn.Module, args: tuple[Any, ...]) -> None:
    if not torch.is_grad_enabled() or this_thread.raw:
        return
    with (
        torch._C.DisableTorchFunction()
    ):  # a function mode of the script sends C getters on to the patched properties
        for parameter in module._parameters.values():
            if parameter is None or not parameter.requires_grad or raw_is_meta(parameter):
                continue
            if hasattr(parameter, "__tensor_flatten__") or wrapped_device(parameter) is not None:
                continue  # a part of a sharded parameter, which is gathered on the GPU before the module runs
            if not args or any(
                isinstance(value, torch.Tensor) and seen_device(value).type == "cuda" for value in args
            ):
                _make_carrier(parameter)


def _make_carrier(parameter: torch.nn.Parameter) -> None:
    gradient = parameter.grad
    held = parameter._use_count() > 1  # type: ignore[attr-defined] # not in torch's stub
    if held or not (gradient is None or _is_whole(gradient)):
        return  # see Note [Host parameters that a graph holds]
    try:
        twin = host_carrier(parameter.detach())
    except RuntimeError:
        return  # memory that is not dense; torch's own error will tell
    parameter.grad = None
    parameter.data = twin
    if gradient is not None:
        gradient.data = host_carrier(gradient.detach())
        parameter.grad = gradient
    # What it meets may be real, and gets a gradient that was computed with a carrier.
    current_machine().part(Engine).mismatches.host_moved = True
    send_gradient_back(parameter)


def _is_whole(gradient: torch.Tensor) -> bool:
    """Whether a gradient is all of its memory, and no graph made it."""
    return (
        gradient.layout == torch.strided
        and not gradient.requires_grad
        and gradient.untyped_storage().nbytes() == gradient.numel() * gradient.element_size()
    )


def host_carrier(source: torch.Tensor) -> torch.Tensor:
    """A carrier over the bytes of a tensor in real host memory.

    It is over a copy where they are not all of its memory.
    """
    known = memory_of(source)
    twin = carrier(source.size(), source.stride(), source.dtype)
    storage = storage_of(twin)
    record = Memory(
        CPU, virtual=True, made=known.made if known else None, moved=known.moved if known else None
    )
    if source.storage_offset() or source.untyped_storage().nbytes() != storage.nbytes():
        source = torch.empty_strided(source.size(), source.stride(), dtype=source.dtype).copy_(source)
    record.shadow = source.untyped_storage()
    record.address = record.shadow.data_ptr()
    record.assumed = known is not None and known.assumed
    record.pinned = known is not None and known.pinned
    record.decision = None if known is None else known.decision
    storage._sd = record
    return twin


def send_gradient_back(tensor: torch.Tensor) -> None:
    """Let the gradient of a moved tensor arrive on the tensor's own device.

    The machine moved it for an operator.
    """
    record = memory_of(tensor)
    if record is None or record.gradient_returns or not tensor.requires_grad:
        return
    if tensor.is_leaf:
        record.gradient_returns = True
    owner = weakref.ref(tensor)  # a strong one would be a cycle through the hook
    home = record.device

    def send(gradient: torch.Tensor) -> torch.Tensor:
        found = owner()
        if type(gradient) is Passing:
            return gradient  # arrives by itself
        return _arrive(gradient, home if found is None else seen_device(found))

    register: Any = tensor.register_hook  # untyped in torch
    register(send)


def _arrive(gradient: torch.Tensor, device: torch.device) -> torch.Tensor:
    record = memory_of(gradient)
    if record is None or record.device == device:
        return gradient
    if device != CPU:
        return move(gradient, device)
    if gradient.requires_grad and torch.is_grad_enabled():  # a graph of the gradients goes through here
        there: torch.Tensor = _Arrival.apply(gradient, device)  # type: ignore[no-untyped-call] # torch's own
        return there
    # A real host tensor would be refused: the gradient of a carrier is a carrier.
    with as_torch():
        whole = gradient.contiguous()
        made = carrier(whole.size(), whole.stride(), whole.dtype)
        value = value_of(gradient, record)
        arrived = Memory(CPU, virtual=True, made=record.made, moved=record.moved)
        arrived.assumed = record.assumed
        arrived.decision = record.decision
        arrived.shadow = (
            None if value is None else value.clone(memory_format=torch.contiguous_format).untyped_storage()
        )
        storage_of(made)._sd = arrived
        return made


class _Arrival(torch.autograd.Function):
    """The arrival of a gradient on the host, of which gradients are taken in turn."""

    @staticmethod
    def forward(context: Any, gradient: torch.Tensor, device: torch.device) -> torch.Tensor:
        context.home = seen_device(gradient)
        return _arrive(gradient.detach(), device)

    @staticmethod
    def backward(context: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None]:
        return _arrive(gradient, context.home), None


_handles: list[Any] = []
"""Of the machines that are entered, innermost last."""

PATCHES = (
    Change(
        "torch.nn.modules.module._global_forward_pre_hooks",
        lambda: _handles.append(register_module_forward_pre_hook(_before_forward)),
        lambda: _handles.pop().remove(),
        "`_before_forward`, before each module is called",
        "autograd would refuse a gradient on meta for a parameter that was left on the host",
    ),
)
