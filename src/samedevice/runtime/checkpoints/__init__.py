"""Files of weights, and models whose weights are not there."""

from __future__ import annotations

from samedevice.runtime.checkpoints.ghost import install_ghosts
from samedevice.runtime.checkpoints.safe_open import install_safe_open
from samedevice.runtime.checkpoints.safetensors import install_safetensors
from samedevice.runtime.checkpoints.serialization import install_serialization

__all__ = [
    "install_ghosts",
    "install_safe_open",
    "install_safetensors",
    "install_serialization",
]
