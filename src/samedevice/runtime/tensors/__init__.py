"""What `torch.Tensor`, storages and factories answer."""

from __future__ import annotations

from samedevice.runtime.tensors.dlpack import PATCHES as DLPACK
from samedevice.runtime.tensors.factories import PATCHES as FACTORIES
from samedevice.runtime.tensors.gradient_checks import PATCHES as GRADIENT_CHECKS
from samedevice.runtime.tensors.gradients import PATCHES as GRADIENTS
from samedevice.runtime.tensors.gradients import send_gradient_back
from samedevice.runtime.tensors.grouping import PATCHES as GROUPING
from samedevice.runtime.tensors.replaced_data import PATCHES as REPLACED_DATA
from samedevice.runtime.tensors.sharing import PATCHES as SHARING
from samedevice.runtime.tensors.storages import PATCHES as STORAGES
from samedevice.runtime.tensors.storages import host_bytes, known_bytes, virtual_storage
from samedevice.runtime.tensors.tensor import PATCHES as TENSORS
from samedevice.runtime.tensors.tensor import brought, host_copy, move, seen_device

__all__ = [
    "DLPACK",
    "FACTORIES",
    "GRADIENTS",
    "GRADIENT_CHECKS",
    "GROUPING",
    "REPLACED_DATA",
    "SHARING",
    "STORAGES",
    "TENSORS",
    "brought",
    "host_bytes",
    "host_copy",
    "known_bytes",
    "move",
    "seen_device",
    "send_gradient_back",
    "virtual_storage",
]
