"""What the torch on a virtual machine was built with.

Must guarantee: a torch that was built with CUDA keeps every fact of its build. Libraries compare their own
with it (torchvision refuses to be imported where CUDA's major version is another), and they were installed to
fit. Only a torch without CUDA, which has no such fact, gets the ones that a machine's GPUs call for.
"""

from __future__ import annotations

from typing import Any

import torch

_C: Any = torch._C

CUDA_VERSION: str = torch.version.cuda or "12.8"
"""By default that of PyTorch's 2.8 wheel, as the others here."""
_MAJOR, _MINOR = (int(part) for part in CUDA_VERSION.split(".")[:2])
CUDA_VERSION_NUMBER = 1000 * _MAJOR + 10 * _MINOR
CUDNN_VERSION: int = _C._cudnn.getVersionInt() if hasattr(_C, "_cudnn") else 91002


def _nccl_version() -> tuple[int, int, int]:
    """As `torch.cuda.nccl.version` reads the number in the build."""
    if not hasattr(_C, "_nccl_version"):
        return 2, 27, 3
    packed = int(_C._nccl_version())
    return packed >> 32, (packed >> 16) & 65535, packed & 65535


NCCL_VERSION = _nccl_version()

# A driver runs every toolkit of its major version. Source: NVIDIA's CUDA Toolkit release notes, tables 2 and
# 3.
_DRIVERS = {12: ("570.124.06", 12080), 13: ("580.65.06", 13000)}
DRIVER_VERSION, DRIVER_CUDA_VERSION_NUMBER = _DRIVERS[min(max(_MAJOR, min(_DRIVERS)), max(_DRIVERS))]
