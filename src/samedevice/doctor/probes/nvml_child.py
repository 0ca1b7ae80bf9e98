"""What NVML says of the driver and its GPUs, as one JSON document on standard output.

Run as a script, in a process of its own: NVML hangs on a broken driver, and nothing may hang with it. Needs
`pynvml` (the package nvidia-ml-py) and says so where it is missing.
"""

from __future__ import annotations

import json
import sys
from contextlib import suppress
from typing import Any

_MODES = {0: "Default", 1: "Exclusive_Thread", 2: "Prohibited", 3: "Exclusive_Process"}
_MIB = 1 << 20
_READ, _NVLINK = 0, 2
"""`nvmlGpuP2PCapsIndex_t` of nvml.h."""


def main() -> None:
    """Print the document."""
    try:
        import pynvml  # type: ignore[import-untyped] # it has no types
    except ImportError as error:
        print(json.dumps({"trouble": str(error), "missing": True}))
        return
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        missing = type(error).__name__ in ("NVMLError_LibraryNotFound", "NVMLError_DriverNotLoaded")
        print(json.dumps({"trouble": str(error), "missing": missing}))
        return
    print(json.dumps(_document(pynvml)))


def _document(nvml: Any) -> dict[str, Any]:
    cuda = _asked(nvml, "nvmlSystemGetCudaDriverVersion") or 0
    handles = [nvml.nvmlDeviceGetHandleByIndex(index) for index in range(nvml.nvmlDeviceGetCount())]
    pairs = [(one, other) for one in range(len(handles)) for other in range(len(handles)) if one != other]
    return {
        "driver": _text(_asked(nvml, "nvmlSystemGetDriverVersion")),
        "cuda": f"{cuda // 1000}.{cuda % 1000 // 10}" if cuda else "",
        "gpus": [_gpu(nvml, index, handle) for index, handle in enumerate(handles)],
        "links": [[one, other, _link(nvml, handles[one], handles[other])] for one, other in pairs],
        "peers": [[one, other, _peer(nvml, handles[one], handles[other])] for one, other in pairs],
    }


def _gpu(nvml: Any, index: int, handle: Any) -> dict[str, Any]:
    memory = _asked(nvml, "nvmlDeviceGetMemoryInfo", handle)
    mig = _asked(nvml, "nvmlDeviceGetMigMode", handle) or (0, 0)
    bus = _asked(nvml, "nvmlDeviceGetPciInfo", handle)
    mode = _asked(nvml, "nvmlDeviceGetComputeMode", handle)
    return {
        "index": index,
        "name": _text(_asked(nvml, "nvmlDeviceGetName", handle)),
        "uuid": _text(_asked(nvml, "nvmlDeviceGetUUID", handle)),
        "bus": _text(getattr(bus, "busId", "")),
        "memory_mib": None if memory is None else memory.total // _MIB,
        "used_mib": None if memory is None else memory.used // _MIB,
        "capability": _asked(nvml, "nvmlDeviceGetCudaComputeCapability", handle),
        "mig": mig[0] == 1,
        "mig_pending": mig[1] == 1,
        "mig_devices": _mig_devices(nvml, handle) if mig[0] == 1 else 0,
        "compute_mode": _MODES.get(mode, ""),
        "processes": [
            [each.pid, "", None if each.usedGpuMemory is None else each.usedGpuMemory // _MIB]
            for each in _asked(nvml, "nvmlDeviceGetComputeRunningProcesses", handle) or ()
        ],
    }


def _mig_devices(nvml: Any, handle: Any) -> int:
    found = 0
    for index in range(_asked(nvml, "nvmlDeviceGetMaxMigDeviceCount", handle) or 0):
        with suppress(nvml.NVMLError):
            nvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, index)
            found += 1
    return found


def _link(nvml: Any, one: Any, other: Any) -> str:
    """As nvidia-smi names it; NVML says of a pair only whether NVLink joins it, not by how many links."""
    if _asked(nvml, "nvmlDeviceGetP2PStatus", one, other, _NVLINK) == 0:
        return "NV"
    level = _asked(nvml, "nvmlDeviceGetTopologyCommonAncestor", one, other)
    return {0: "PIX", 10: "PIX", 20: "PXB", 30: "PHB", 40: "NODE", 50: "SYS"}.get(level, "")


def _peer(nvml: Any, one: Any, other: Any) -> str:
    status = _asked(nvml, "nvmlDeviceGetP2PStatus", one, other, _READ)
    return {0: "OK", 1: "CNS", 2: "GNS", 3: "TNS", 4: "DR", 5: "NS"}.get(status, "")


def _asked(nvml: Any, question: str, *arguments: Any) -> Any:
    """The answer; None for what this board, driver or release of NVML cannot tell."""
    try:
        return getattr(nvml, question)(*arguments)
    except (nvml.NVMLError, AttributeError, NotImplementedError):
        return None


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value or "")


if __name__ == "__main__":
    main()
    sys.stdout.flush()
