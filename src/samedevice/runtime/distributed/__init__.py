"""Process groups, collectives, and DDP's reducer."""

from __future__ import annotations

from samedevice.runtime.distributed.collectives import Collectives
from samedevice.runtime.distributed.own_ranks import install_own_ranks
from samedevice.runtime.distributed.process_groups import install_process_groups
from samedevice.runtime.distributed.reducer import install_reducer

__all__ = [
    "Collectives",
    "install_own_ranks",
    "install_process_groups",
    "install_reducer",
]
