"""`torch.cuda`, NVML, streams and generators as a program sees them."""

from __future__ import annotations

from samedevice.runtime.cuda.accelerator import PATCHES as ACCELERATOR
from samedevice.runtime.cuda.allocator import given_out, ledger_of, new_pool
from samedevice.runtime.cuda.blas import BlasWorkspaces
from samedevice.runtime.cuda.build import CUDA_VERSION, CUDNN_VERSION, NCCL_VERSION
from samedevice.runtime.cuda.data_parallel import PATCHES as DATA_PARALLEL
from samedevice.runtime.cuda.driver import INITIALIZATION_ERROR, is_in_bad_fork
from samedevice.runtime.cuda.generators import PATCHES as GENERATORS
from samedevice.runtime.cuda.legacy_tensors import type_named
from samedevice.runtime.cuda.nvml import PATCHES as NVML
from samedevice.runtime.cuda.properties import DeviceProperties, device_properties, pci_bus
from samedevice.runtime.cuda.streams import (
    HINT,
    capturing,
    current_stream,
    forget_current_streams,
    is_capturing,
    wait_for_copy,
)
from samedevice.runtime.cuda.torch_cuda import PATCHES as TORCH_CUDA
from samedevice.runtime.cuda.torch_cuda import forget_initialization

__all__ = [
    "ACCELERATOR",
    "CUDA_VERSION",
    "CUDNN_VERSION",
    "DATA_PARALLEL",
    "GENERATORS",
    "HINT",
    "INITIALIZATION_ERROR",
    "NCCL_VERSION",
    "NVML",
    "TORCH_CUDA",
    "BlasWorkspaces",
    "DeviceProperties",
    "capturing",
    "current_stream",
    "device_properties",
    "forget_current_streams",
    "forget_initialization",
    "given_out",
    "is_capturing",
    "is_in_bad_fork",
    "ledger_of",
    "new_pool",
    "pci_bus",
    "type_named",
    "wait_for_copy",
]
