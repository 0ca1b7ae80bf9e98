"""Every model of a library on several GPUs, before its users find out."""

from __future__ import annotations

from samedevice.sweep._actions import ACTIONS, DEFAULT_ACTIONS
from samedevice.sweep._confirm import Script, write_scripts
from samedevice.sweep._libraries import KNOWN
from samedevice.sweep._pool import LocalPool, Order, Pool
from samedevice.sweep._ray import RayPool
from samedevice.sweep._releases import (
    Changes,
    Compared,
    changes_between,
    first_with,
    has_root,
    python_with,
    releases_between,
)
from samedevice.sweep._store import Store, Target
from samedevice.sweep._sweep import Progress, Root, Swept, sweep
from samedevice.sweep._worker import serve

__all__ = [
    "ACTIONS",
    "DEFAULT_ACTIONS",
    "KNOWN",
    "Changes",
    "Compared",
    "LocalPool",
    "Order",
    "Pool",
    "Progress",
    "RayPool",
    "Root",
    "Script",
    "Store",
    "Swept",
    "Target",
    "changes_between",
    "first_with",
    "has_root",
    "python_with",
    "releases_between",
    "serve",
    "sweep",
    "write_scripts",
]
