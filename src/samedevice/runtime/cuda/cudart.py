"""`torch.cuda.cudart()`: what scripts call of the CUDA runtime.

Must guarantee: a call that the virtual machine cannot do is refused by its name; return codes and their texts
are CUDA's.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from enum import IntEnum
from typing import Any

from samedevice.errors import UnsupportedFeatureError
from samedevice.runtime.cuda.driver import memory_info, synchronize_device
from samedevice.runtime.cuda.streams import stream_book
from samedevice.runtime.state import current_machine


class cudaError(IntEnum):  # the runtime's own name
    """Return codes of the runtime; torch gives only the first a name."""

    success = 0
    errorInvalidValue = 1
    errorMemoryAllocation = 2
    errorInitializationError = 3
    errorNoDevice = 100
    errorInvalidDevice = 101
    errorInvalidResourceHandle = 400
    errorNotReady = 600
    errorIllegalAddress = 700
    errorPeerAccessAlreadyEnabled = 704
    errorHostMemoryAlreadyRegistered = 712
    errorHostMemoryNotRegistered = 713


_TEXTS: Mapping[int, str] = {
    cudaError.success: "no error",
    cudaError.errorInvalidValue: "invalid argument",
    cudaError.errorMemoryAllocation: "out of memory",
    cudaError.errorInitializationError: "initialization error",
    cudaError.errorNoDevice: "no CUDA-capable device is detected",
    cudaError.errorInvalidDevice: "invalid device ordinal",
    cudaError.errorInvalidResourceHandle: "invalid resource handle",
    cudaError.errorNotReady: "device not ready",
    cudaError.errorIllegalAddress: "an illegal memory access was encountered",
    cudaError.errorPeerAccessAlreadyEnabled: "peer access is already enabled",
    cudaError.errorHostMemoryAlreadyRegistered: "part or all of the requested memory range is already mapped",
    cudaError.errorHostMemoryNotRegistered: "pointer does not correspond to a registered memory region",
}
"""As `cudaGetErrorString` says them."""


class _ReturnCode:
    """`torch.cuda.cudart().cudaError`: names of codes, and any number as a code."""

    success = cudaError.success

    def __call__(self, code: int) -> int:
        return code

    def __getattr__(self, name: str) -> cudaError:
        try:
            return cudaError[name]
        except KeyError:
            raise AttributeError(name) from None


class Cudart:
    """The runtime of a virtual machine."""

    cudaError = _ReturnCode()  # the runtime's own name

    @staticmethod
    def cudaGetErrorString(error: int) -> str:  # the runtime's own name
        """Text of a return code."""
        return _TEXTS.get(int(error), "unrecognized error code")

    @staticmethod
    def cudaMemGetInfo(device: int) -> tuple[int, int]:  # the runtime's own name
        """Free and total bytes of a GPU."""
        return memory_info(device)

    @staticmethod
    def cudaHostRegister(address: int, nbytes: int, flags: int) -> int:  # the runtime's own name
        """Pin memory of the host that is there."""
        registered = current_machine().registered
        if any(start < address + nbytes and address < start + size for start, size in registered.items()):
            return cudaError.errorHostMemoryAlreadyRegistered
        registered[address] = nbytes
        return cudaError.success

    @staticmethod
    def cudaHostUnregister(address: int) -> int:  # the runtime's own name
        """End that."""
        known = current_machine().registered.pop(address, None)
        return cudaError.errorHostMemoryNotRegistered if known is None else cudaError.success

    @staticmethod
    def _succeed(*args: Any) -> int:
        return cudaError.success

    # No profiler runs, and a stream's handle holds nothing: nothing to do.
    cudaProfilerStart = cudaProfilerStop = cudaProfilerInitialize = _succeed  # the runtime's own names
    cudaStreamDestroy = _succeed  # the runtime's own name

    @staticmethod
    def cudaDeviceSynchronize() -> int:  # the runtime's own name
        """Wait for the current GPU."""
        synchronize_device()
        return cudaError.success

    @staticmethod
    def cudaStreamCreate(address: int) -> int:  # the runtime's own name
        """Write the handle of a new stream to an address, for `torch.cuda.ExternalStream`."""
        ctypes.c_uint64.from_address(address).value = stream_book().handle()
        return cudaError.success

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise UnsupportedFeatureError(f"torch.cuda.cudart().{name} is not supported on a virtual machine.")


CUDART = Cudart()
