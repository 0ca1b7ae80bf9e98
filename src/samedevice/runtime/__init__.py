"""The virtual machine: everything that acts on torch."""

from __future__ import annotations

from samedevice.torch_versions.installed import refused_by_name, require_torch

require_torch()
with refused_by_name():
    from samedevice.runtime.machine import VirtualMachine  # it imports torch
    from samedevice.runtime.tracking import Recording

__all__ = ["Recording", "VirtualMachine"]
