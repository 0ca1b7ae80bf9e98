"""The virtual machine: everything that acts on torch."""

from __future__ import annotations

import warnings

from samedevice.torch_versions.installed import refused_by_name, require_torch

require_torch()
with warnings.catch_warnings(), refused_by_name():
    warnings.filterwarnings("ignore", "Failed to initialize NumPy")  # torch says it of an import of its own
    from samedevice.runtime.machine import VirtualMachine  # it imports torch
    from samedevice.runtime.tracking import Recording

__all__ = ["Recording", "VirtualMachine"]
