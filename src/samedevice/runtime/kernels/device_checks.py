"""Composite C++ operators that compare the devices of their arguments themselves.

They do it before any kernel is reached, and for C++ all virtual tensors share a device: two GPUs pass unseen,
and a host tensor is refused with a word about meta. So the comparison is made here, with the devices that a
script sees.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

from samedevice.events import EventKind
from samedevice.runtime.patching import Patch
from samedevice.runtime.state import CPU, caller, current_machine, tensors_in, this_thread
from samedevice.runtime.tensors import move, seen_device
from samedevice.runtime.tracking import Recorder

Tensor = torch.Tensor
_Devices = list[torch.device]


def _meshgrid(devices: _Devices, index: int) -> str:
    return "meshgrid expects all tensors to have the same device"


def _take_along_dim(devices: _Devices, index: int) -> str:
    return (
        f"Expected tensor to have {devices[0]} Device, but got tensor with {devices[index]} Device "
        "(while checking arguments for torch.take_along_dim():)"
    )


def _inner(devices: _Devices, index: int) -> str:
    return (
        f"Expected tensor to have {devices[0].type} DeviceType, but got tensor with {devices[index].type} "
        "DeviceType (while checking arguments for inner())"
    )


def _gradient(devices: _Devices, index: int) -> str:
    return (
        f"torch.gradient expected each tensor to be on the same device, but got devices {devices[0]} and "
        f"{devices[index]}!"
    )


def _window(name: str) -> Callable[[_Devices, int], str]:
    def text(devices: _Devices, index: int) -> str:
        return (
            f"{name} input and window must be on the same device but got self on {devices[0]} and window on "
            f"{devices[index]}"
        )

    return text


def _grid_sampler(devices: _Devices, index: int) -> str:
    return (
        f"grid_sampler(): expected input and grid to be on same device, but input is on {devices[0]} and "
        f"grid is on {devices[index]}"
    )


def _multi_dot(devices: _Devices, index: int) -> str:
    return (
        f"multi_dot(): all tensors must be on the same device but tensor 0 is on {devices[0]} and tensor "
        f"{index} on {devices[index]}"
    )


_CHECKED: tuple[tuple[str, str, Callable[[_Devices, int], str]], ...] = (
    ("torch.meshgrid", "aten.meshgrid.default", _meshgrid),
    ("torch.cartesian_prod", "aten.cartesian_prod.default", _meshgrid),
    ("torch.take_along_dim", "aten.take_along_dim.default", _take_along_dim),
    ("torch.Tensor.take_along_dim", "aten.take_along_dim.default", _take_along_dim),
    ("torch.inner", "aten.inner.default", _inner),
    ("torch.Tensor.inner", "aten.inner.default", _inner),
    ("torch.gradient", "aten.gradient.default", _gradient),
    ("torch.stft", "aten.stft.default", _window("stft")),
    ("torch.Tensor.stft", "aten.stft.default", _window("stft")),
    ("torch.istft", "aten.istft.default", _window("istft")),
    ("torch.Tensor.istft", "aten.istft.default", _window("istft")),
    ("torch.grid_sampler", "aten.grid_sampler.default", _grid_sampler),
    ("torch.linalg.multi_dot", "aten.linalg_multi_dot.default", _multi_dot),
)
"""Function, operator as findings print it, CUDA's text. The texts are those that torch prints for a host
and a meta tensor.
"""

_BY_TYPE_ONLY = {_inner}
"""They compare kinds of device: of two GPUs, the kernels inside judge."""


def _checked(
    op: str, text: Callable[[_Devices, int], str], original: Callable[..., Any]
) -> Callable[..., Any]:
    recorder = current_machine().part(Recorder)

    @functools.wraps(original)
    def function(*args: Any, **kwargs: Any) -> Any:
        if this_thread.raw:
            return original(*args, **kwargs)
        tensors = list(tensors_in((*args, *kwargs.values())))
        devices = [seen_device(tensor) for tensor in tensors]
        other = next((i for i, device in enumerate(devices) if device != devices[0]), None)
        if other is None or (text in _BY_TYPE_ONLY and len({device.type for device in devices}) == 1):
            return original(*args, **kwargs)
        named = [(f"tensors[{i}]", tensor, False) for i, tensor in enumerate(tensors)]
        recorder.refused(EventKind.MISMATCH, op, text(devices, other), named, devices, caller())
        home = next((device for device in devices if device.type == "cuda"), CPU)
        return original(
            *[_moved(value, home) for value in args],
            **{key: _moved(value, home) for key, value in kwargs.items()},
        )

    return function


def _moved(value: Any, home: torch.device) -> Any:
    if isinstance(value, Tensor):
        return move(value, home)
    if isinstance(value, (list, tuple)):
        return type(value)([_moved(part, home) for part in value])
    return value


PATCHES = tuple(
    Patch(
        name,
        functools.partial(_checked, op, text),
        "C++ compares the devices before any kernel, and for C++ all virtual tensors share one",
    )
    for name, op, text in _CHECKED
)
