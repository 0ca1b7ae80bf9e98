"""Files of weights, and models whose weights are not there."""

from __future__ import annotations

from samedevice.runtime.checkpoints.ghost import PATCHES as GHOSTS
from samedevice.runtime.checkpoints.ghost import GhostLibrary
from samedevice.runtime.checkpoints.safe_open import PATCHES as SAFE_OPEN
from samedevice.runtime.checkpoints.safetensors import PATCHES as SAFETENSORS
from samedevice.runtime.checkpoints.serialization import PATCHES as SERIALIZATION

__all__ = [
    "GHOSTS",
    "SAFETENSORS",
    "SAFE_OPEN",
    "SERIALIZATION",
    "GhostLibrary",
]
