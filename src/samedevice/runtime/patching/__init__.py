"""Changes the world while a machine is entered, and puts it back."""

from __future__ import annotations

from samedevice.runtime.patching.imports import when_imported
from samedevice.runtime.patching.patches import Patches
from samedevice.runtime.patching.rebinding import rebind, rebind_everywhere

__all__ = [
    "Patches",
    "rebind",
    "rebind_everywhere",
    "when_imported",
]
