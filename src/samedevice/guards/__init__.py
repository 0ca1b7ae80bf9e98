"""Real runs: where a model is, inputs where it wants them, and failures with their diagnosis."""

from __future__ import annotations

from samedevice.guards._align import Alignment, align, check
from samedevice.guards._cache import CacheGuard, guard_cache
from samedevice.guards._finding import findings_of
from samedevice.guards._guard import Guard
from samedevice.guards._heal import Healing, heal
from samedevice.guards._layers import add_layer, called_method
from samedevice.guards._live import event_of
from samedevice.guards._placement import Placement, Warned, placement

__all__ = [
    "Alignment",
    "CacheGuard",
    "Guard",
    "Healing",
    "Placement",
    "Warned",
    "add_layer",
    "align",
    "called_method",
    "check",
    "event_of",
    "findings_of",
    "guard_cache",
    "heal",
    "placement",
]
