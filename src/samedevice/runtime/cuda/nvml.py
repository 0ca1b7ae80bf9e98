"""`pynvml` as the virtual machine's driver would answer it.

NVML sees every GPU of the machine, whatever `CUDA_VISIBLE_DEVICES` says. Nothing runs on them: utilization is
0. What a description cannot tell (temperature, power, clocks, fans) raises `NVMLError_NotSupported`, as
boards do that lack the sensor. A function that is not here raises `UnsupportedFeatureError` and names itself.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from samedevice.errors import UnsupportedFeatureError
from samedevice.runtime.cuda.build import DRIVER_CUDA_VERSION_NUMBER, DRIVER_VERSION
from samedevice.runtime.cuda.driver import peer_access
from samedevice.runtime.cuda.properties import pci_bus
from samedevice.runtime.patching import Constant, Entry, Patch
from samedevice.runtime.state import current_machine, gpu_uuid

_ERRORS = {
    "Uninitialized": (1, "Uninitialized"),
    "InvalidArgument": (2, "Invalid Argument"),
    "NotSupported": (3, "Not Supported"),
    "NoPermission": (4, "Insufficient Permissions"),
    "AlreadyInitialized": (5, "Already Initialized"),
    "NotFound": (6, "Not Found"),
    "InsufficientSize": (7, "Insufficient Size"),
    "InsufficientPower": (8, "Insufficient External Power"),
    "DriverNotLoaded": (9, "Driver Not Loaded"),
    "Timeout": (10, "Timeout"),
    "IrqIssue": (11, "Interrupt Request Issue"),
    "LibraryNotFound": (12, "NVML Shared Library Not Found"),
    "FunctionNotFound": (13, "Function Not Found"),
    "CorruptedInfoROM": (14, "Corrupted infoROM"),
    "GpuIsLost": (15, "GPU is lost"),
    "ResetRequired": (16, "GPU requires restart"),
    "OperatingSystem": (17, "The operating system has blocked the request."),
    "LibRmVersionMismatch": (18, "RM has detected an NVML/RM version mismatch."),
    "Memory": (20, "Insufficient Memory"),
    "Unknown": (999, "Unknown Error"),
}


class NVMLError(Exception):
    """NVML's error; `NVMLError(3)` makes a `NVMLError_NotSupported`."""

    value: int
    _text = "Unknown Error"

    def __new__(cls, value: int = 999) -> NVMLError:
        chosen = _BY_VALUE.get(value, cls) if cls is NVMLError else cls
        return super().__new__(chosen)

    def __init__(self, value: int | None = None) -> None:
        super().__init__()
        if value is not None:
            self.value = value

    def __str__(self) -> str:
        return self._text


_BY_VALUE: dict[int, type[NVMLError]] = {
    value: type(f"NVMLError_{name}", (NVMLError,), {"value": value, "_text": text, "__module__": "pynvml"})
    for name, (value, text) in _ERRORS.items()
}

_CONSTANTS = {
    "NVML_SUCCESS": 0,
    **{
        f"NVML_ERROR_{name}": value
        for name, value in (
            ("UNINITIALIZED", 1),
            ("INVALID_ARGUMENT", 2),
            ("NOT_SUPPORTED", 3),
            ("NO_PERMISSION", 4),
            ("NOT_FOUND", 6),
            ("DRIVER_NOT_LOADED", 9),
            ("LIBRARY_NOT_FOUND", 12),
            ("FUNCTION_NOT_FOUND", 13),
            ("GPU_IS_LOST", 15),
            ("UNKNOWN", 999),
        )
    },
    "NVML_TEMPERATURE_GPU": 0,
    "NVML_CLOCK_GRAPHICS": 0,
    "NVML_CLOCK_SM": 1,
    "NVML_CLOCK_MEM": 2,
    "NVML_CLOCK_VIDEO": 3,
    "NVML_FEATURE_DISABLED": 0,
    "NVML_FEATURE_ENABLED": 1,
    "NVML_P2P_CAPS_INDEX_READ": 0,
    "NVML_P2P_CAPS_INDEX_WRITE": 1,
    "NVML_P2P_CAPS_INDEX_NVLINK": 2,
    "NVML_P2P_CAPS_INDEX_ATOMICS": 3,
    "NVML_P2P_CAPS_INDEX_PROP": 4,
    "NVML_P2P_STATUS_OK": 0,
    "NVML_P2P_STATUS_CHIPSET_NOT_SUPPORTED": 1,
    "NVML_P2P_STATUS_GPU_NOT_SUPPORTED": 2,
    "NVML_P2P_STATUS_NOT_SUPPORTED": 5,
    "NVML_NVLINK_MAX_LINKS": 18,
    "NVML_DEVICE_ARCH_KEPLER": 2,
    "NVML_DEVICE_ARCH_MAXWELL": 3,
    "NVML_DEVICE_ARCH_PASCAL": 4,
    "NVML_DEVICE_ARCH_VOLTA": 5,
    "NVML_DEVICE_ARCH_TURING": 6,
    "NVML_DEVICE_ARCH_AMPERE": 7,
    "NVML_DEVICE_ARCH_ADA": 8,
    "NVML_DEVICE_ARCH_HOPPER": 9,
    "NVML_DEVICE_ARCH_BLACKWELL": 10,
    "NVML_DEVICE_ARCH_UNKNOWN": 0xFFFFFFFF,
}
_ARCHITECTURES = {5: 3, 6: 4, 7: 5, 8: 7, 9: 9, 10: 10, 12: 10}


@dataclass(frozen=True, slots=True)
class Handle:
    """A physical GPU."""

    index: int


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes."""

    total: int
    free: int
    used: int
    reserved: int = 0
    version: int = 0


@dataclass(frozen=True, slots=True)
class Utilization:
    """Percent."""

    gpu: int = 0
    memory: int = 0


@dataclass(frozen=True, slots=True)
class Process:
    """A process that uses a GPU."""

    pid: int
    usedGpuMemory: int  # NVML's own name
    gpuInstanceId: int = 0xFFFFFFFF  # NVML's own name
    computeInstanceId: int = 0xFFFFFFFF  # NVML's own name


@dataclass(frozen=True, slots=True)
class PciInfo:
    """Where a GPU sits."""

    busId: str  # NVML's own name
    bus: int
    domain: int = 0
    device: int = 0
    pciDeviceId: int = 0  # NVML's own name
    pciSubSystemId: int = 0  # NVML's own name
    busIdLegacy: str = ""  # NVML's own name


def _error(name: str) -> NVMLError:
    return _BY_VALUE[_ERRORS[name][0]]()


def _nothing(*args: Any) -> None:
    return None


def _not_supported(*args: Any) -> Any:
    raise _error("NotSupported")


def _count() -> int:
    return len(current_machine().machine.gpus)


def _handle(index: int) -> Handle:
    if not 0 <= index < _count():
        raise _error("InvalidArgument")
    return Handle(index)


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value


def _handle_by_uuid(uuid: str | bytes) -> Handle:
    for index in range(_count()):
        if gpu_uuid(index) == _text(uuid):
            return Handle(index)
    raise _error("NotFound")


def _handle_by_bus(bus_id: str | bytes) -> Handle:
    for index in range(_count()):
        info = _pci_info(Handle(index))
        if _text(bus_id).lower() in (info.busId.lower(), info.busIdLegacy.lower()):
            return Handle(index)
    raise _error("NotFound")


def _used(handle: Handle) -> int:
    """Bytes that this process reserved on a physical GPU; none on one that it cannot see."""
    state = current_machine()
    for index in range(state.device_count()):
        if state.physical_index(index) == handle.index:
            return state.ledger(index).reserved
    return 0


def _memory(handle: Handle, version: int | None = None) -> Memory:
    total, used = current_machine().machine.gpus[handle.index].total_memory, _used(handle)
    return Memory(total, total - used, used, version=version or 0)


def _pci_info(handle: Handle) -> PciInfo:
    bus = pci_bus(handle.index)
    return PciInfo(busId=f"00000000:{bus:02X}:00.0", bus=bus, busIdLegacy=f"0000:{bus:02X}:00.0")


def _processes(handle: Handle) -> list[Process]:
    used = _used(handle)
    return [Process(os.getpid(), used)] if used else []


def _architecture(handle: Handle) -> int:
    major, minor = current_machine().machine.gpus[handle.index].capability
    if (major, minor) == (7, 5):
        return _CONSTANTS["NVML_DEVICE_ARCH_TURING"]
    if (major, minor) == (8, 9):
        return _CONSTANTS["NVML_DEVICE_ARCH_ADA"]
    return _ARCHITECTURES.get(major, _CONSTANTS["NVML_DEVICE_ARCH_UNKNOWN"])


def _p2p_status(first: Handle, second: Handle, capability: int) -> int:
    machine = current_machine().machine
    if capability == _CONSTANTS["NVML_P2P_CAPS_INDEX_NVLINK"]:
        possible = machine.link(first.index, second.index).kind == "NVLink"
    else:
        possible = peer_access(machine, first.index, second.index)
    return _CONSTANTS["NVML_P2P_STATUS_OK" if possible else "NVML_P2P_STATUS_NOT_SUPPORTED"]


def _nvlink_state(handle: Handle, link: int) -> int:
    machine = current_machine().machine
    linked = any(machine.link(handle.index, other).kind == "NVLink" for other in range(_count()))
    if not linked:
        raise _error("NotSupported")
    return _CONSTANTS["NVML_FEATURE_ENABLED"]


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "nvmlInit": _nothing,
    "nvmlInitWithFlags": _nothing,
    "nvmlShutdown": _nothing,
    "nvmlErrorString": lambda result: _BY_VALUE.get(result, NVMLError)._text,
    "nvmlSystemGetDriverVersion": lambda: DRIVER_VERSION,
    "nvmlSystemGetNVMLVersion": lambda: f"12.{DRIVER_VERSION}",
    "nvmlSystemGetCudaDriverVersion": lambda: DRIVER_CUDA_VERSION_NUMBER,
    "nvmlSystemGetCudaDriverVersion_v2": lambda: DRIVER_CUDA_VERSION_NUMBER,
    "nvmlDeviceGetCount": _count,
    "nvmlDeviceGetHandleByIndex": _handle,
    "nvmlDeviceGetHandleByUUID": _handle_by_uuid,
    "nvmlDeviceGetHandleByPciBusId": _handle_by_bus,
    "nvmlDeviceGetIndex": lambda handle: handle.index,
    "nvmlDeviceGetMinorNumber": lambda handle: handle.index,
    "nvmlDeviceGetName": lambda handle: current_machine().machine.gpus[handle.index].name,
    "nvmlDeviceGetUUID": lambda handle: gpu_uuid(handle.index),
    "nvmlDeviceGetMemoryInfo": _memory,
    "nvmlDeviceGetUtilizationRates": lambda handle: Utilization(),
    "nvmlDeviceGetComputeRunningProcesses": _processes,
    "nvmlDeviceGetGraphicsRunningProcesses": lambda handle: [],
    "nvmlDeviceGetPciInfo": _pci_info,
    "nvmlDeviceGetCudaComputeCapability": lambda handle: tuple(
        current_machine().machine.gpus[handle.index].capability
    ),
    "nvmlDeviceGetArchitecture": _architecture,
    "nvmlDeviceGetP2PStatus": _p2p_status,
    "nvmlDeviceGetNvLinkState": _nvlink_state,
    **dict.fromkeys(
        (
            "nvmlDeviceGetTemperature",
            "nvmlDeviceGetPowerUsage",
            "nvmlDeviceGetPowerManagementLimit",
            "nvmlDeviceGetEnforcedPowerLimit",
            "nvmlDeviceGetTotalEnergyConsumption",
            "nvmlDeviceGetClockInfo",
            "nvmlDeviceGetMaxClockInfo",
            "nvmlDeviceGetFanSpeed",
            "nvmlDeviceGetMigMode",
            "nvmlDeviceGetEccMode",
            "nvmlDeviceGetSerial",
        ),
        _not_supported,
    ),
}
# The newer spellings of functions that changed in C mean the same in Python.
_VERSIONED = {
    f"{name}_v2": _FUNCTIONS[name]
    for name in (
        "nvmlInit",
        "nvmlDeviceGetCount",
        "nvmlDeviceGetHandleByIndex",
        "nvmlDeviceGetHandleByPciBusId",
        "nvmlDeviceGetComputeRunningProcesses",
    )
} | {
    f"{name}_v3": _FUNCTIONS[name]
    for name in ("nvmlDeviceGetComputeRunningProcesses", "nvmlDeviceGetPciInfo")
}


class VirtualNvml(ModuleType):
    """The module `pynvml`."""

    def __init__(self) -> None:
        super().__init__("pynvml", "NVML of a samedevice virtual machine.")
        self.__spec__ = ModuleSpec("pynvml", None)  # without one `importlib.util.find_spec("pynvml")` raises
        vars(self).update(
            _CONSTANTS, **_FUNCTIONS, **_VERSIONED, NVMLError=NVMLError, __version__=f"12.{DRIVER_VERSION}"
        )
        vars(self).update({kind.__name__: kind for kind in _BY_VALUE.values()})

    def __getattr__(self, name: str) -> Any:
        # Import machinery and `inspect` look for many dunder names; constants are plain absences.
        if not name.startswith("nvml"):
            raise AttributeError(f"module 'pynvml' of the virtual machine has no attribute '{name}'")
        raise UnsupportedFeatureError(f"pynvml.{name} is not supported on a virtual machine.")


_ASKS_NVML = "`torch.cuda.utilization` and its like ask NVML through this module"
PATCHES = (
    Entry(
        'sys.modules["pynvml"]',
        lambda: sys.modules,
        "pynvml",
        lambda original: VirtualNvml(),
        "scripts ask NVML for the GPUs; a real one is about other GPUs, and mostly there is none",
    ),
    Patch("torch.cuda.pynvml", lambda original: sys.modules["pynvml"], _ASKS_NVML, added=True),
    Patch("torch.cuda._HAS_PYNVML", Constant(True), _ASKS_NVML),
    Patch("torch.cuda._PYNVML_ERR", Constant(None), _ASKS_NVML),
)
