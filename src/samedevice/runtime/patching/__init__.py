"""Changes the world while a machine is entered, and puts it back."""

from __future__ import annotations

from samedevice.runtime.patching.imports import when_imported
from samedevice.runtime.patching.patches import Patches
from samedevice.runtime.patching.rebinding import rebind, rebind_everywhere
from samedevice.runtime.patching.table import SOME, Change, Constant, Entry, Patch, PatchTable, Row, With

__all__ = [
    "SOME",
    "Change",
    "Constant",
    "Entry",
    "Patch",
    "PatchTable",
    "Patches",
    "Row",
    "With",
    "rebind",
    "rebind_everywhere",
    "when_imported",
]
