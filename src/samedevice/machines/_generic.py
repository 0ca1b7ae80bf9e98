"""GPUs of no particular product: so much memory, and the features of a current data-centre GPU."""

from __future__ import annotations

from samedevice.machines._gpu import Gpu
from samedevice.machines._link import Link
from samedevice.machines._size import size_text

# Of an H100, so that bfloat16, flash attention and every current kernel path are there; memory is what a user
# chose.
CAPABILITY = (9, 0)
SM_COUNT = 132
LINK = Link.pcie(generation=4, lanes=16)
MAX_MEMORY_MIB = 4 << 20  # 4 TiB in one GPU: more is a slip of the unit
SOURCE = "generic: only the memory size was given"


def generic_gpu(memory_mib: int) -> Gpu:
    """A GPU with that much memory, named so that nobody mistakes it for a product."""
    size = size_text(memory_mib)
    return Gpu(
        name=f"NVIDIA Virtual {size}",
        memory_mib=memory_mib,
        capability=CAPABILITY,
        sm_count=SM_COUNT,
        bandwidth_gbps=None,
        link=LINK,
        pcie=LINK,
        source=SOURCE,
        key=size,
        memory_gb=memory_mib / 1024,
    )
