"""Handing tensors to other libraries without a copy: DLPack.

A virtual GPU's memory has no bytes that another library could use. `__cuda_array_interface__` needs nothing here: torch's own answers
with the virtual address, and what could read it needs a driver.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.utils.dlpack

from samedevice.errors import UnsupportedFeatureError
from samedevice.runtime._memory import engine, is_virtual
from samedevice.runtime._patches import Patches
from samedevice.runtime._tensors import host_copy, seen_device


def install_exchange(patches: Patches) -> None:
    """Replace where DLPack capsules are made."""
    export: Any = torch.Tensor.__dlpack__
    to_dlpack: Any = torch._C._to_dlpack

    def dlpack(self: torch.Tensor, **kwargs: Any) -> Any:
        if engine.raw or not is_virtual(self):
            return export(self, **kwargs)
        if seen_device(self).type == "cpu":
            return export(host_copy(self), **kwargs)
        if self.requires_grad or self.is_conj() or self.layout != torch.strided or self.get_device() != torch.cuda.current_device():
            return export(self, **kwargs)  # raises what CUDA raises
        raise UnsupportedFeatureError(
            f"Exporting a tensor on {self.device} with DLPack is not supported: a virtual GPU's memory has no bytes to share. "
            "Export tensor.cpu() instead."
        )

    def capsule(tensor: torch.Tensor) -> Any:
        return tensor.__dlpack__() if is_virtual(tensor) else to_dlpack(tensor)

    patches.attribute(torch.Tensor, "__dlpack__", dlpack)
    patches.attribute(torch.utils.dlpack, "to_dlpack", capsule)
    patches.attribute(torch, "to_dlpack", capsule)
