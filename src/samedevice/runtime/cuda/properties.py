"""What a virtual GPU says about itself.

Numbers per compute capability are those of the CUDA C++ Programming Guide, "Technical Specifications per
Compute Capability"; the L2 size is that of the capability's best known product. Clock rates and the width of
the memory bus are 0: a machine's description has none.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass

from samedevice.runtime.state import MachineState, gpu_uuid

_KIB = 1024
_MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class _Architecture:
    threads: int
    shared: int
    shared_optin: int
    l2: int


# capability: threads and KiB of shared memory per multiprocessor, KiB a block may ask for, MiB of L2 of the
# best known product.
_ARCHITECTURES = {
    (6, 0): _Architecture(2048, 64, 48, 4),
    (6, 1): _Architecture(2048, 96, 48, 3),
    (7, 0): _Architecture(2048, 96, 96, 6),
    (7, 5): _Architecture(1024, 64, 64, 6),
    (8, 0): _Architecture(2048, 164, 163, 40),
    (8, 6): _Architecture(1536, 100, 99, 6),
    (8, 9): _Architecture(1536, 100, 99, 72),
    (9, 0): _Architecture(2048, 228, 227, 50),
    (10, 0): _Architecture(2048, 228, 227, 126),
    (10, 3): _Architecture(2048, 228, 227, 126),
    (12, 0): _Architecture(1536, 100, 99, 96),
}


@dataclass(frozen=True, slots=True)
class DeviceProperties:
    """`torch.cuda.get_device_properties(i)`, with torch's fields and torch's text.

    `gcnArchName` is AMD's and absent.
    """

    name: str
    major: int
    minor: int
    total_memory: int
    multi_processor_count: int
    uuid: uuid.UUID
    pci_bus_id: int
    pci_device_id: int
    pci_domain_id: int
    L2_cache_size: int
    max_threads_per_multi_processor: int
    shared_memory_per_block_optin: int
    shared_memory_per_multiprocessor: int
    clock_rate: int = 0
    memory_clock_rate: int = 0
    memory_bus_width: int = 0
    is_integrated: int = 0
    is_multi_gpu_board: int = 0
    max_threads_per_block: int = 1024
    shared_memory_per_block: int = 48 * _KIB
    regs_per_multiprocessor: int = 65536
    warp_size: int = 32

    def __repr__(self) -> str:
        # torch/csrc/cuda/Module.cpp, registerCudaDeviceProperties
        return (
            f"_CudaDeviceProperties(name='{self.name}', major={self.major}, minor={self.minor}, "
            f"total_memory={self.total_memory // _MIB}MB, "
            f"multi_processor_count={self.multi_processor_count}, "
            f"uuid={self.uuid}, pci_bus_id={self.pci_bus_id}, pci_device_id={self.pci_device_id}, "
            f"pci_domain_id={self.pci_domain_id}, L2_cache_size={self.L2_cache_size // _MIB}MB)"
        )


def pci_bus(physical_index: int) -> int:
    """Made-up PCI bus number of a virtual GPU."""
    return 0x10 + physical_index


def device_properties(state: MachineState, index: int) -> DeviceProperties:
    """Properties of the visible device `index`."""
    gpu = state.gpu(index)
    physical = state.physical_index(index)
    major, minor = gpu.capability
    architecture = _ARCHITECTURES.get((major, minor)) or _nearest(major, minor)
    return DeviceProperties(
        name=gpu.name,
        major=major,
        minor=minor,
        total_memory=gpu.total_memory,
        multi_processor_count=gpu.sm_count,
        uuid=uuid.UUID(gpu_uuid(physical).removeprefix("GPU-")),
        pci_bus_id=pci_bus(physical),
        pci_device_id=0,
        pci_domain_id=0,
        L2_cache_size=architecture.l2 * _MIB,
        max_threads_per_multi_processor=architecture.threads,
        shared_memory_per_block_optin=architecture.shared_optin * _KIB,
        shared_memory_per_multiprocessor=architecture.shared * _KIB,
    )


def _nearest(major: int, minor: int) -> _Architecture:
    """The newest architecture that is not newer: GPUs unknown to the table are usually newer than it."""
    older = [known for known in _ARCHITECTURES if known <= (major, minor)]
    return _ARCHITECTURES[max(older, default=min(_ARCHITECTURES))]
