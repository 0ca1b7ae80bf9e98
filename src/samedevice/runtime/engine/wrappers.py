"""Tensors around tensors.

Fake and functional ones, those of `torch.func`, and the wrapper classes of libraries.

Note [Wrappers tell C++ meta]
A wrapper class may tell C++ any device. With `cuda`, autograd asks for CUDA's device guard in a constructor
that must not throw: a build without CUDA ends the process there, and one with CUDA asks a driver that is not
there. So inside a machine no tensor tells C++ that it is on `cuda`. A wrapper is made so that C++ asks Python
for its device, as FakeTensors always are, and C++ hears meta. Its dispatch keys stay CUDA's, or torch's
tables would not know the operators as they are on hardware. Python is told where the innermost tensor is,
also while a transform of `torch.func` runs.

Note [Questions before factories]
C++ code that makes a tensor beside a wrapper asks for its device, hears meta, and makes the tensor there. The
question and the factory come from the same instruction of the same frame, which nothing else does: then the
factory gets the device that was meant. What autograd makes of stored options comes without a question; it
belongs where the last fake tensors were.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any

import torch
import torch._subclasses.functional_tensor
import torch.fx.experimental.proxy_tensor
from torch._subclasses.fake_tensor import FakeTensor

from samedevice.runtime.patching import Constant, Patch
from samedevice.runtime.state import META, TorchDevice, caller, storage_of, this_thread

ASKS_DEVICE = torch.ops.prim.device.default
_is_transformed: Any = torch._C._functorch.is_functorch_wrapped_tensor
_inside: Any = torch._C._functorch.get_unwrapped
_POSITION_OF_DEVICE, _POSITION_OF_ASKS = 7, 11
"""Of `_make_wrapper_subclass(cls, size, strides, storage_offset, memory_format, dtype, layout, device,
pin_memory, requires_grad, dispatch_sizes_strides_policy, dispatch_device, ...)`.
"""


class Claim:
    """The device that a wrapper was made with; it lies on the wrapper's storage, which has no memory."""

    __slots__ = ("device",)

    def __init__(self, device: torch.device) -> None:
        self.device = device


class _Asked(threading.local):
    """What C++ asked last about a fake tensor."""

    device: torch.device | None = None
    frame = 0
    instruction = -1


_asked = _Asked()


def wrapped_device(tensor: torch.Tensor) -> torch.device | None:
    """Where a wrapper is for Python; None for what is none."""
    if isinstance(tensor, FakeTensor):
        return META if tensor.fake_mode.in_kernel_invocation else tensor.fake_device
    if _is_transformed(tensor):
        innermost: torch.device = _inside(tensor).device
        return innermost
    if torch._is_functional_tensor(tensor):
        functional: torch.device = torch._from_functional_tensor(tensor).device
        return functional
    claim = _claim_of(tensor)
    return None if claim is None else claim.device


def _claim_of(tensor: torch.Tensor) -> Claim | None:
    try:
        claim = storage_of(tensor)._sd
    except (NotImplementedError, RuntimeError):
        claim = getattr(tensor, "_sd", None)
    return claim if claim.__class__ is Claim else None


def overheard(func: Any, args: Any) -> torch.device:
    """What C++ hears when it asks a wrapper for its device."""
    wrapped = wrapped_device(args[0])
    device: torch.device = func(*args) if wrapped is None else wrapped
    if device.type != "cuda":
        return device
    frame = caller()
    _asked.device, _asked.frame, _asked.instruction = device, id(frame), frame.f_lasti
    return META


def meant(func: Any, args: Any, kwargs: dict[str, Any]) -> dict[str, Any]:
    """Options of an operator among fake tensors, with the device that was meant where C++ said meta."""
    device = kwargs.get("device")
    if not isinstance(device, TorchDevice) or device.type != "meta" or this_thread.to_meta:
        return kwargs
    first = args[0] if args else None
    if func is torch.ops.aten._to_copy.default and isinstance(first, FakeTensor):
        return {**kwargs, "device": first.fake_device}
    if torch._C._current_autograd_node() is not None and _asked.device is not None:
        return {**kwargs, "device": _asked.device}
    return {**kwargs, "device": asked_device() or device}


def asked_device() -> torch.device | None:
    """The device that C++ asked a wrapper for in this very call; see Note [Questions before factories]."""
    if _asked.device is None:
        return None
    frame = caller()
    return _asked.device if (_asked.frame, _asked.instruction) == (id(frame), frame.f_lasti) else None


_make: Any = torch._C.TensorBase._make_wrapper_subclass


def _make_wrapper(cls: Any, *args: Any, **kwargs: Any) -> Any:
    device = args[_POSITION_OF_DEVICE - 1] if len(args) >= _POSITION_OF_DEVICE else kwargs.get("device")
    place = None if device is None else TorchDevice(device)
    if place is None or place.type != "cuda":
        return _make(cls, *args, **kwargs)
    if len(args) >= _POSITION_OF_ASKS:
        args = (*args[: _POSITION_OF_ASKS - 1], True, *args[_POSITION_OF_ASKS:])
    else:
        kwargs["dispatch_device"] = True
    made = _make(cls, *args, **kwargs)
    try:
        storage_of(made)._sd = Claim(place)
    except (NotImplementedError, RuntimeError):
        made._sd = Claim(place)
    return made


def _heard(dispatch: Callable[..., Any]) -> Callable[..., Any]:
    """What a mode of torch, or a tensor class of torch without its mode, does with an operator."""

    @functools.wraps(dispatch)
    def torch_dispatch(self: Any, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is ASKS_DEVICE:
            return overheard(func, args)
        return dispatch(self, func, types, args, meant(func, args, kwargs or {}))

    return torch_dispatch


def _heard_by_class(dispatch: Any) -> Any:
    return classmethod(_heard(dispatch.__func__))


def _no_context(device: torch.device) -> None:
    """Nothing to bring up: the memory of a virtual GPU needs no driver."""


_FAKE = "torch._subclasses.fake_tensor"
_FUNCTIONAL = "torch._subclasses.functional_tensor"
PATCHES = (
    Patch(
        "torch.Tensor._make_wrapper_subclass",
        Constant(staticmethod(_make_wrapper)),
        "autograd asks for CUDA's device guard, which a build without CUDA has not, and the process ends",
    ),
    *(
        Patch(
            f"{kind}.__torch_dispatch__",
            make,
            "C++ asks a wrapper for its device and must hear meta, and what it then makes belongs on the GPU",
        )
        for kind, make in (
            (f"{_FAKE}.FakeTensorMode", _heard),
            (f"{_FUNCTIONAL}.FunctionalTensorMode", _heard),
            ("torch.fx.experimental.proxy_tensor.ProxyTorchDispatchMode", _heard),
            (f"{_FAKE}.FakeTensor", _heard_by_class),
            (f"{_FUNCTIONAL}.FunctionalTensor", _heard),
        )
    ),
    Patch(
        f"{_FAKE}.init_gpu_context",
        Constant(_no_context),
        "it would make a tensor in C++, below every mode, on a device that is not there",
    ),
    Patch(
        f"{_FAKE}.FakeTensorMode.avoid_device_init",
        Constant(property(lambda self: True)),
        "constants would be computed on a device that is not there",
    ),
)

__all__ = ["ASKS_DEVICE", "PATCHES", "Claim", "asked_device", "meant", "overheard", "wrapped_device"]
