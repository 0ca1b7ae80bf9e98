"""The virtual machine: everything that acts on torch."""

from __future__ import annotations

from samedevice.runtime.installed import require_torch

require_torch()

from samedevice.runtime.machine import VirtualMachine  # noqa: E402  # it imports torch

__all__ = ["VirtualMachine"]
