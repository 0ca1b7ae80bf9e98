"""The functions of `torch._C` for CUDA that torch's Python calls, answered by the entered machine.

Must guarantee: torch's public functions keep their own code and signatures, and a name that a library
imported before the machine was entered works too, since both end here. CPU builds lack most of these names,
CUDA builds have them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any, NoReturn
from weakref import WeakKeyDictionary

import torch

from samedevice.errors import UnsupportedFeatureError
from samedevice.machines import Machine
from samedevice.runtime.cuda.allocator import MEMORY_FUNCTIONS, ledger_of
from samedevice.runtime.cuda.blas import BlasWorkspaces, choose_workspace_size, workspace_size
from samedevice.runtime.cuda.build import CUDA_VERSION_NUMBER
from samedevice.runtime.cuda.streams import (
    _CUDA_DEVICE_TYPE,
    select_stream,
    sleep,
    stream_book,
    stream_handle,
    synchronize,
)
from samedevice.runtime.state import MachineState, TorchDevice, allocator_stats, current_machine

INITIALIZATION_ERROR = (
    "CUDA error: initialization error\nCUDA kernel errors might be asynchronously reported at some other API "
    "call, so the stacktrace below might be incorrect.\nFor debugging consider passing "
    "CUDA_LAUNCH_BLOCKING=1\nCompile with `TORCH_USE_CUDA_DSA` to enable device-side assertions.\n"
)
"""What CUDA says in a process that was forked off one that had initialized it."""

_BUILT_FOR = ((7, 5), (8, 0), (8, 6), (9, 0), (10, 0), (12, 0))


class _Switches:
    """Switches that scripts set and read back; nothing else depends on them."""

    def __init__(self) -> None:
        self.sync_debug = 0
        self.cudnn_benchmark_limit = 10
        self.libraries: dict[str, Any] = {
            "linalg": torch._C._LinalgBackend.Default,
            "blas": torch._C._BlasBackend.Cublas,
        }
        """What scripts prefer of CUDA's libraries; a CPU build knows only its own answers."""


_switches_of: WeakKeyDictionary[MachineState, _Switches] = WeakKeyDictionary()
_switches_lock = threading.Lock()


def _switches() -> _Switches:
    with _switches_lock:
        return _switches_of.setdefault(current_machine(), _Switches())


# -- devices


def is_in_bad_fork() -> bool:
    """Whether CUDA was initialized before this process was forked off."""
    return current_machine().in_bad_fork()


def get_device() -> int:
    """Index of the current device."""
    state = current_machine()
    state.initialize()
    return state.current_device()


def exchange_device(device: int) -> int:
    """Make a device current and answer the one before; nothing for a negative index."""
    if device < 0:
        return -1
    state = current_machine()
    state.initialize()
    before = state.current_device()
    if device != before:
        state.set_current_device(device)
    return before


def peer_access(machine: Machine, first: int, second: int) -> bool:
    """Whether one physical GPU can read the other's memory.

    Over NVLink always; over PCIe not to or from a GeForce, where NVIDIA's driver refuses. A GPU is no peer of
    itself.
    """
    link = machine.link(first, second)
    geforce = any("GeForce" in machine.gpus[index].name for index in (first, second))
    return link.kind == "NVLink" or (link.kind == "PCIe" and not geforce)


def _can_access_peer(device: int, peer_device: int) -> bool:
    state = current_machine()
    return peer_access(state.machine, state.physical_index(device), state.physical_index(peer_device))


def arch_flags() -> str:
    """Architectures of the build: the usual ones, and every one that the machine has."""
    capabilities = set(_BUILT_FOR) | {tuple(gpu.capability) for gpu in current_machine().machine.gpus}
    return " ".join(f"sm_{major}{minor}" for major, minor in sorted(capabilities))


# -- memory


def empty_cache() -> None:
    """Release what no tensor uses, on every visible GPU."""
    for ledger in current_machine().ledgers().values():
        ledger.empty_cache()


def memory_info(device: int) -> tuple[int, int]:
    """Free and total bytes, as `cudaMemGetInfo`: what the allocator keeps cached is not free."""
    ledger = ledger_of(device)
    return ledger.free, ledger.total


def device_stats(device: int) -> dict[str, Any]:
    """Allocator statistics of a GPU."""
    return allocator_stats(ledger_of(device).settle())


def reset_peaks(device: int) -> None:
    """Peaks become what is allocated now."""
    ledger_of(device).reset_peaks()


def _attach_memory_observer(observer: Callable[[int, int, int, int], object]) -> None:
    current_machine().memory_observers.append(observer)


def _set_memory_fraction(fraction: float, device: int) -> None:
    ledger_of(device).fraction = fraction


def _get_memory_fraction(device: int) -> float:
    return ledger_of(device).fraction


# -- streams


def _current_stream(device: int) -> tuple[int, int, int]:
    return stream_book().current(device), device, _CUDA_DEVICE_TYPE


def _default_stream(device: int) -> tuple[int, int, int]:
    return 0, device, _CUDA_DEVICE_TYPE


def synchronize_device() -> None:
    """The host waits for the current GPU."""
    current_machine().initialize()
    synchronize()


def _external_stream(data_ptr: int, device: int) -> tuple[int, int, int]:
    return data_ptr, device, _CUDA_DEVICE_TYPE


# -- switches

_SYNC_DEBUG = {"default": 0, "warn": 1, "error": 2}


def _prefer(kind: str, library: Any) -> None:
    _switches().libraries[kind] = library


def _set_sync_debug(mode: int | str) -> None:
    _switches().sync_debug = _SYNC_DEBUG[mode] if isinstance(mode, str) else mode


def _set_benchmark_limit(limit: int) -> None:
    _switches().cudnn_benchmark_limit = limit


def _nothing(*args: Any, **kwargs: Any) -> None:
    """Done at once, or without any effect that a program could see here."""


def refuse(feature: str) -> Callable[..., NoReturn]:
    """A function that names the feature that is missing."""

    def refused(*args: Any, **kwargs: Any) -> NoReturn:
        raise UnsupportedFeatureError(f"{feature} is not supported on a virtual machine.")

    refused.__name__ = refused.__qualname__ = feature.rpartition(".")[2]
    return refused


EMULATED: Mapping[str, Callable[..., Any]] = {
    **MEMORY_FUNCTIONS,
    "_cuda_init": lambda: current_machine().initialize(),
    "_cuda_isInBadFork": is_in_bad_fork,
    "_cuda_getDeviceCount": lambda: current_machine().device_count(),
    "_cuda_getDevice": get_device,
    "_cuda_setDevice": lambda device: current_machine().set_current_device(device),
    "_cuda_exchangeDevice": exchange_device,
    "_cuda_maybeExchangeDevice": exchange_device,
    "_cuda_hasPrimaryContext": lambda device: current_machine().initialized,
    "_cuda_canDeviceAccessPeer": _can_access_peer,
    "_cuda_getArchFlags": arch_flags,
    "_cuda_getCompiledVersion": lambda: CUDA_VERSION_NUMBER,
    "_cuda_synchronize": synchronize_device,
    "_cuda_ipc_collect": _nothing,
    "_cuda_sleep": sleep,
    "_cuda_getCurrentStream": _current_stream,
    "_cuda_getDefaultStream": _default_stream,
    "_cuda_getCurrentRawStream": lambda device: stream_handle(stream_book().current(device)),
    "_cuda_getStreamFromExternal": _external_stream,
    "_cuda_setStream": select_stream,
    "_cuda_emptyCache": empty_cache,
    "_host_emptyCache": _nothing,
    "_cuda_memoryStats": device_stats,
    "_cuda_resetPeakMemoryStats": reset_peaks,
    "_cuda_resetAccumulatedMemoryStats": lambda device: ledger_of(device).reset_added(),
    "_cuda_hostMemoryStats": dict,
    "_cuda_resetAccumulatedHostMemoryStats": _nothing,
    "_cuda_resetPeakHostMemoryStats": _nothing,
    "_cuda_setMemoryFraction": _set_memory_fraction,
    "_cuda_getMemoryFraction": _get_memory_fraction,
    "_cuda_getAllocatorBackend": lambda: "native",
    "_cuda_attach_out_of_memory_observer": _attach_memory_observer,
    "_cuda_set_sync_debug_mode": _set_sync_debug,
    "_cuda_get_sync_debug_mode": lambda: _switches().sync_debug,
    "_cuda_set_cudnn_benchmark_limit": _set_benchmark_limit,
    "_cuda_get_cudnn_benchmark_limit": lambda: _switches().cudnn_benchmark_limit,
    "_cuda_get_conv_benchmark_empty_cache": lambda: False,
    "_cuda_clearCublasWorkspaces": lambda: current_machine().part(BlasWorkspaces).clear(),
    "_cuda_resetCublasWorkspaceSize": lambda: choose_workspace_size(None, light=False),
    "_cuda_resetCublasLtWorkspaceSize": lambda: choose_workspace_size(None, light=True),
    "_cuda_getCublasWorkspaceSize": lambda: workspace_size(light=False),
    "_cuda_setCublasWorkspaceSize": lambda size: choose_workspace_size(size, light=False),
    "_cuda_getCublasLtWorkspaceSize": lambda: workspace_size(light=True),
    "_cuda_setCublasLtWorkspaceSize": lambda size: choose_workspace_size(size, light=True),
    "_set_linalg_preferred_backend": lambda library: _prefer("linalg", library),
    "_get_linalg_preferred_backend": lambda: _switches().libraries["linalg"],
    "_set_blas_preferred_backend": lambda library: _prefer("blas", library),
    "_get_blas_preferred_backend": lambda: _switches().libraries["blas"],
    "_cuda_tunableop_is_enabled": lambda: False,
    "_cuda_tunableop_tuning_is_enabled": lambda: False,
    "_cuda_record_untuned_is_enabled": lambda: False,
}

UNSUPPORTED: Mapping[str, str] = {
    "_cuda_getCurrentBlasHandle": "torch.cuda.current_blas_handle",
    "_cuda_getCurrentSolverHandle": "torch.cuda.current_solver_handle",
    "_cuda_cudaHostAllocator": "torch.cuda.memory._host_allocator",
    "_cuda_customAllocator": "torch.cuda.CUDAPluggableAllocator",
    "_cuda_changeCurrentAllocator": "torch.cuda.change_current_allocator",
    "_cuda_getAllocator": "torch.cuda.memory._get_current_allocator",
    "_cuda_jiterator_compile_and_launch_kernel": "torch.cuda.jiterator",
    "_cuda_tunableop_enable": "torch.cuda.tunable.enable",
    "_cuda_tunableop_tuning_enable": "torch.cuda.tunable.tuning_enable",
    "_cuda_tunableop_set_max_tuning_duration": "torch.cuda.tunable.set_max_tuning_duration",
    "_cuda_tunableop_get_max_tuning_duration": "torch.cuda.tunable.get_max_tuning_duration",
    "_cuda_tunableop_set_max_tuning_iterations": "torch.cuda.tunable.set_max_tuning_iterations",
    "_cuda_tunableop_get_max_tuning_iterations": "torch.cuda.tunable.get_max_tuning_iterations",
    "_cuda_tunableop_set_filename": "torch.cuda.tunable.set_filename",
    "_cuda_tunableop_get_filename": "torch.cuda.tunable.get_filename",
    "_cuda_tunableop_read_file": "torch.cuda.tunable.read_file",
    "_cuda_tunableop_get_results": "torch.cuda.tunable.get_results",
    "_cuda_tunableop_get_validators": "torch.cuda.tunable.get_validators",
    "_cuda_record_untuned_enable": "torch.cuda.tunable.record_untuned_enable",
}

ACCELERATOR = TorchDevice("cuda")
