"""`torch.cuda`, NVML, streams and generators as a program sees them."""

from __future__ import annotations

from samedevice.runtime.cuda.accelerator import install_accelerator
from samedevice.runtime.cuda.build import CUDA_VERSION, CUDNN_VERSION
from samedevice.runtime.cuda.data_parallel import install_parallel
from samedevice.runtime.cuda.driver import INITIALIZATION_ERROR, is_in_bad_fork
from samedevice.runtime.cuda.generators import install_generators
from samedevice.runtime.cuda.legacy_tensors import type_named
from samedevice.runtime.cuda.nvml import install_nvml
from samedevice.runtime.cuda.properties import DeviceProperties, device_properties, pci_bus
from samedevice.runtime.cuda.streams import (
    HINT,
    capturing,
    current_stream,
    forget_current_streams,
    is_capturing,
    wait_for_copy,
)
from samedevice.runtime.cuda.torch_cuda import forget_initialization, install_cuda

__all__ = [
    "CUDA_VERSION",
    "CUDNN_VERSION",
    "HINT",
    "INITIALIZATION_ERROR",
    "DeviceProperties",
    "capturing",
    "current_stream",
    "device_properties",
    "forget_current_streams",
    "forget_initialization",
    "install_accelerator",
    "install_cuda",
    "install_generators",
    "install_nvml",
    "install_parallel",
    "is_capturing",
    "is_in_bad_fork",
    "pci_bus",
    "type_named",
    "wait_for_copy",
]
