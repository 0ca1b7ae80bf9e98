"""What `torch.Tensor`, storages and factories answer."""

from __future__ import annotations

from samedevice.runtime.tensors.dlpack import install_exchange
from samedevice.runtime.tensors.factories import PATCHES as FACTORIES
from samedevice.runtime.tensors.gradient_checks import install_gradient_checks
from samedevice.runtime.tensors.gradients import install_gradients, send_gradient_back
from samedevice.runtime.tensors.sharing import install_sharing
from samedevice.runtime.tensors.storages import host_bytes, install_storages, known_bytes, virtual_storage
from samedevice.runtime.tensors.tensor import PATCHES as TENSORS
from samedevice.runtime.tensors.tensor import host_copy, move, seen_device

__all__ = [
    "FACTORIES",
    "TENSORS",
    "host_bytes",
    "host_copy",
    "install_exchange",
    "install_gradient_checks",
    "install_gradients",
    "install_sharing",
    "install_storages",
    "known_bytes",
    "move",
    "seen_device",
    "send_gradient_back",
    "virtual_storage",
]
