"""Several processes on one virtual machine: what children inherit, how ranks are launched, what they all saw.

Nothing here imports torch; a child that imports it enters the machine by itself (see `_child`).
"""

from __future__ import annotations

from samedevice.ranks._child import Reporter
from samedevice.ranks._family import (
    Family,
    Member,
    Seen,
    crowded,
    first_trace,
    memory_by_gpu,
    memory_by_rank,
    together,
)
from samedevice.ranks._launcher import end_left_over, launch, launch_command, needs_package

__all__ = [
    "Family",
    "Member",
    "Reporter",
    "Seen",
    "crowded",
    "end_left_over",
    "first_trace",
    "launch",
    "launch_command",
    "memory_by_gpu",
    "memory_by_rank",
    "needs_package",
    "together",
]
