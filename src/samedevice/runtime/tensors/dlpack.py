"""Handing tensors to other libraries without a copy: DLPack.

A virtual GPU's memory has no bytes that another library could use, so what is handed over is known to torch
only. `__cuda_array_interface__` needs nothing here: torch's own answers with the virtual address, and what
could read it needs a driver.
"""

from __future__ import annotations

import sys
from typing import Any

import torch
import torch.utils.dlpack

from samedevice.errors import UnsupportedFeatureError
from samedevice.runtime.patching import SOME, Patch
from samedevice.runtime.state import is_virtual, this_thread
from samedevice.runtime.tensors.tensor import host_copy, seen_device
from samedevice.torch_versions.adapter import TORCH


class Capsule:
    """Stands for a DLPack capsule of a tensor on a virtual GPU; as such a one, it can be taken once."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self._tensor: torch.Tensor | None = tensor

    def take(self) -> torch.Tensor:
        """The tensor, over the same memory. Raises as torch does when it was taken before."""
        taken, self._tensor = self._tensor, None
        if taken is None:
            raise RuntimeError(
                "from_dlpack received an invalid capsule. Note that DLTensor capsules can be consumed only "
                "once."
            )
        return taken


def _exporting(export: Any) -> Any:
    def dlpack(self: torch.Tensor, **kwargs: Any) -> Any:
        if this_thread.raw or not is_virtual(self):
            return export(self, **kwargs)
        if seen_device(self).type == "cpu":
            return export(host_copy(self), **kwargs)
        if (
            self.requires_grad
            or self.is_conj()
            or self.layout != torch.strided
            or (TORCH.dlpack_of_current_gpu_only and self.get_device() != torch.cuda.current_device())
        ):
            return export(self, **kwargs)  # raises what CUDA raises
        if "max_version" in kwargs and sys._getframe(1).f_code.co_filename != torch.utils.dlpack.__file__:
            raise UnsupportedFeatureError(
                f"Another library cannot take a tensor on {self.device} with DLPack on a virtual machine: "
                "its memory has no bytes to share. Hand over tensor.cpu() instead."
            )
        return Capsule(self.clone() if kwargs.get("copy") else self)

    return dlpack


def _capsules(to_dlpack: Any) -> Any:
    def capsule(tensor: torch.Tensor) -> Any:
        return tensor.__dlpack__() if is_virtual(tensor) else to_dlpack(tensor)

    return capsule


def _taking(take: Any) -> Any:
    def from_capsule(made: Any) -> torch.Tensor:
        if not isinstance(made, Capsule):
            taken: torch.Tensor = take(made)
            return taken
        source = made.take()
        with torch.no_grad():
            return source.as_strided(source.size(), source.stride(), source.storage_offset()).detach()

    return from_capsule


_NO_BYTES = "C++ would hand out the memory of a tensor on a virtual GPU, which has no bytes"
_UNKNOWN = "C++ knows no capsule of a tensor on a virtual GPU"
PATCHES = (
    Patch("torch.Tensor.__dlpack__", _exporting, _NO_BYTES),
    Patch("torch.utils.dlpack.to_dlpack", _capsules, _NO_BYTES),
    Patch("torch.to_dlpack", _capsules, _NO_BYTES),
    Patch("torch._C._from_dlpack", _taking, _UNKNOWN),
    Patch("torch.utils.dlpack._from_dlpack", _taking, _UNKNOWN, since=SOME),  # up to 2.9
)
