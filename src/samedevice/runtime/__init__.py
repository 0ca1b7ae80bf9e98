"""The virtual machine: everything that acts on torch."""

from __future__ import annotations

from samedevice.runtime.machine import VirtualMachine

__all__ = ["VirtualMachine"]
