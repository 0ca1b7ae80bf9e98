"""The functions of `torch._C` beneath `torch.accelerator`, answered by the entered machine."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch

from samedevice.runtime.cuda.driver import (
    ACCELERATOR,
    device_stats,
    empty_cache,
    exchange_device,
    get_device,
    memory_info,
    reset_peaks,
)
from samedevice.runtime.cuda.streams import Stream, current_stream, select_stream, synchronize
from samedevice.runtime.patching import Constant, Patch
from samedevice.runtime.state import current_machine

# c10/core/DeviceCapability.h for CUDA: every type but those that only other backends have.
_CUDA_DTYPES = frozenset(
    getattr(torch, name)
    for name in (
        "uint8 int8 int16 int32 int64 uint16 uint32 uint64 float16 float32 float64 bfloat16 bool complex32 "
        "complex64 complex128 float8_e4m3fn float8_e5m2 float8_e4m3fnuz float8_e5m2fnuz float8_e8m0fnu "
        "quint8 qint8 qint32 quint4x2 quint2x4"
    ).split()
    if hasattr(torch, name)
)


def _accelerator(check: bool | None = None) -> torch.device:
    return ACCELERATOR


def _set_device(device: int) -> None:
    if device >= 0:
        current_machine().set_current_device(device)


def _set_stream(stream: Stream) -> None:
    select_stream(stream.stream_id, stream.device_index, stream.device_type)


def _nothing(*args: Any) -> None:
    """Done at once, or without any effect that a program could see here."""


def get_device_capability(device: Any = None, /) -> dict[str, Any]:
    """Types that the accelerator can hold.

    Torch's own function would remember the answer beyond the machine.
    """
    current_machine().index(device)
    return {"supported_dtypes": set(_CUDA_DTYPES)}


_EMULATED: Mapping[str, Callable[..., Any]] = {
    "_get_accelerator": _accelerator,
    "_accelerator_getAccelerator": _accelerator,
    "_accelerator_deviceCount": lambda: current_machine().device_count(),
    "_accelerator_getDeviceIndex": get_device,
    "_accelerator_setDeviceIndex": _set_device,
    "_accelerator_exchangeDevice": exchange_device,
    "_accelerator_maybeExchangeDevice": exchange_device,
    "_accelerator_getStream": current_stream,
    "_accelerator_setStream": _set_stream,
    "_accelerator_synchronizeDevice": synchronize,
    "_accelerator_isAllocatorInitialized": lambda: current_machine().initialized,
    "_accelerator_emptyCache": empty_cache,
    "_accelerator_emptyHostCache": _nothing,
    "_accelerator_getDeviceStats": device_stats,
    "_accelerator_getMemoryInfo": memory_info,
    "_accelerator_resetPeakStats": reset_peaks,
    "_accelerator_resetAccumulatedStats": _nothing,
    "_accelerator_hooks_device_count": lambda: current_machine().device_count(),
    "_accelerator_hooks_get_current_device": get_device,
    "_accelerator_hooks_set_current_device": _set_device,
    "_accelerator_hooks_exchange_device": exchange_device,
    "_accelerator_hooks_maybe_exchange_device": exchange_device,
}


PATCHES = (
    *(
        Patch(
            f"torch._C.{name}",
            Constant(function),
            "`torch.accelerator` asks these functions; in a build without CUDA they know no accelerator",
        )
        for name, function in _EMULATED.items()
    ),
    Patch(
        "torch.accelerator.get_device_capability",
        Constant(get_device_capability),
        "C++ would ask the driver which types a GPU can hold",
        since="torch 2.9",
    ),
)
