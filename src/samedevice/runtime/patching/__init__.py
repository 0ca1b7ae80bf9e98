"""Changes the world while a machine is entered, and puts it back."""

from __future__ import annotations

from samedevice.runtime.patching.interruptions import SignalsWait
from samedevice.runtime.patching.patches import Patches
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
    "SignalsWait",
    "With",
]
