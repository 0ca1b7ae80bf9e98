"""Process groups, collectives, and DDP's reducer."""

from __future__ import annotations

from samedevice.runtime.distributed.collectives import Collectives
from samedevice.runtime.distributed.one_process import PATCHES as ONE_PROCESS
from samedevice.runtime.distributed.own_ranks import PATCHES as OWN_RANKS
from samedevice.runtime.distributed.process_groups import PATCHES as PROCESS_GROUPS
from samedevice.runtime.distributed.reducer import PATCHES as REDUCER
from samedevice.runtime.distributed.works import Works

__all__ = ["ONE_PROCESS", "OWN_RANKS", "PROCESS_GROUPS", "REDUCER", "Collectives", "Works"]
