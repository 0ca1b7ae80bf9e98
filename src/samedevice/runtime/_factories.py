"""Factories and `torch.device` take integers as devices; nothing else about them changes.

Note [Real factories first]
`torch.utils._device._device_constructors()` remembers the factories at its first use, and `with torch.device(...)` compares against
them. It is asked before anything is wrapped, or such a context would silently do nothing.
"""

from __future__ import annotations

import copyreg
import functools
from collections.abc import Callable
from typing import Any

import torch
import torch.utils._device

from samedevice.errors import UnsupportedFeatureError
from samedevice.runtime._memory import is_virtual
from samedevice.runtime._patches import Patches
from samedevice.runtime._state import TorchDevice, current_state

_WITH_DEVICE = (
    "arange", "as_tensor", "asarray", "bartlett_window", "blackman_window", "empty", "empty_like", "empty_strided", "eye", "full",
    "full_like", "hamming_window", "hann_window", "kaiser_window", "linspace", "logspace", "ones", "ones_like", "rand", "rand_like",
    "randint", "randint_like", "randn", "randn_like", "randperm", "scalar_tensor", "tensor", "tril_indices",
    "triu_indices", "zeros", "zeros_like",
)  # fmt: skip
_METHODS = ("new_empty", "new_empty_strided", "new_full", "new_ones", "new_zeros")
_FROM_DATA = {"tensor", "as_tensor", "asarray"}


class _DeviceType(type):
    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, TorchDevice)

    def __subclasscheck__(cls, subclass: type) -> bool:
        return issubclass(subclass, TorchDevice)

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        first = args[0] if args else kwargs.get("device")
        if isinstance(first, int) and not isinstance(first, bool) and len(args) <= 1 and "index" not in kwargs:
            return TorchDevice("cuda", first)
        return TorchDevice(*args, **kwargs)


class _Device(metaclass=_DeviceType):
    """`torch.device` inside a machine: `torch.device(0)` is the first GPU, as where CUDA is."""


_Device.__name__ = _Device.__qualname__ = "device"
_Device.__module__ = "torch"


def _reduce_device(device: torch.device) -> Any:
    # Pickled by the name `torch.device`, so that the pickle can be read outside the machine.
    return (_Device, (device.type,) if device.index is None else (device.type, device.index))


def install_factories(patches: Patches) -> None:
    """Wrap every factory that takes `device=`."""
    torch.utils._device._device_constructors()  # Note [Real factories first]
    for name in _WITH_DEVICE:
        original = getattr(torch, name)
        patches.attribute(torch, name, _from_data(original) if name in _FROM_DATA else _with_integers(original))
    patches.attribute(torch, "sparse_coo_tensor", _without_gpus(torch.sparse_coo_tensor))
    for name in _METHODS:
        patches.attribute(torch.Tensor, name, _with_integers(getattr(torch.Tensor, name)))
    patches.attribute(torch, "device", _Device)
    patches.item(copyreg.dispatch_table, TorchDevice, _reduce_device)  # type: ignore[arg-type]  # keyed by type


def _with_integers(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original, updated=())
    def factory(*args: Any, **kwargs: Any) -> Any:
        device = kwargs.get("device")
        if device is not None:
            if isinstance(device, int):
                kwargs["device"] = current_state().device(device)
            if isinstance(kwargs.get("out"), torch.Tensor) and is_virtual(kwargs["out"]):
                _check_out(kwargs)
        return original(*args, **kwargs)

    return factory


def _without_gpus(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original, updated=())
    def factory(*args: Any, **kwargs: Any) -> Any:
        device = kwargs.get("device")
        given = [value for value in (*args, *kwargs.values()) if isinstance(value, torch.Tensor)]
        if any(is_virtual(tensor) for tensor in given) or (device is not None and current_state().device(device).type == "cuda"):
            raise UnsupportedFeatureError("A sparse tensor on a GPU is not supported on a virtual machine.")
        return original(*args, **kwargs)

    return factory


def _check_out(kwargs: dict[str, Any]) -> None:
    """C++ compares the type of `device=` with that of `out=`, which is meta for it: compare here and leave `device` away."""
    wanted, own = current_state().device(kwargs.pop("device")).type, kwargs["out"].device.type
    if wanted != own:
        raise RuntimeError(f"device type {wanted} does not match device type of out parameter ({own})")


def _from_data(original: Callable[..., Any]) -> Callable[..., Any]:
    """`torch.tensor` and friends read scalars out of nested lists below every mode: hand them Python numbers.

    See also Note [Lists as indices].
    """

    @functools.wraps(original, updated=())
    def factory(data: Any, *args: Any, **kwargs: Any) -> Any:
        device = kwargs.get("device")
        if device is None and torch._C._len_torch_function_stack():
            device = _device_of_context()
        if device is not None:  # C++ would ask a CUDA build which index `cuda` means
            kwargs["device"] = current_state().device(device)
        if isinstance(data, (list, tuple)):
            scalars: list[torch.dtype] = []
            data = _numbers(data, scalars)
            if scalars and kwargs.get("dtype") is None and not args:
                kwargs["dtype"] = functools.reduce(torch.promote_types, scalars)
        return original(data, *args, **kwargs)

    return factory


def _device_of_context() -> torch.device | None:
    """The device of the innermost `with torch.device(...)`, or of `torch.set_default_device`."""
    for position in reversed(range(torch._C._len_torch_function_stack())):
        mode = torch._C._get_function_stack_at(position)
        if isinstance(mode, torch.utils._device.DeviceContext):
            return mode.device
    return None


def _numbers(value: Any, scalars: list[torch.dtype]) -> Any:
    if isinstance(value, torch.Tensor):
        if value.dim() == 0:
            scalars.append(value.dtype)
            return value.item()
        return value.tolist() if is_virtual(value) else value
    if isinstance(value, (list, tuple)):
        if not any(isinstance(part, (torch.Tensor, list, tuple)) for part in value):
            return value
        return [_numbers(part, scalars) for part in value]
    return value
