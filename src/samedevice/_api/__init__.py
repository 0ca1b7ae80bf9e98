"""What `import samedevice` offers: phrases and findings of the layers below, in the language of who asks."""

from __future__ import annotations

from samedevice._api._plan import plan
from samedevice._api._real import align, check, guard, guard_cache, heal, placement
from samedevice._api._virtual import explain, machine, monitor

__all__ = [
    "align",
    "check",
    "explain",
    "guard",
    "guard_cache",
    "heal",
    "machine",
    "monitor",
    "placement",
    "plan",
]
