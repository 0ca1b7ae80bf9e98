"""The rank of a process, where no launcher wrote it into its environment.

A program that makes its ranks itself gives each its number as an argument: `init_process_group(rank=...)`, or
the index that `torch.multiprocessing.spawn` hands to each process. What torch is told is kept, so that a
report can name the process.
"""

from __future__ import annotations

import functools
import importlib
from typing import Any

import torch.distributed as dist
import torch.distributed.distributed_c10d as c10d

from samedevice.runtime.patching import Patches
from samedevice.runtime.state import MachineState


def install_own_ranks(patches: Patches, state: MachineState) -> None:
    """Keep what torch is told."""
    spawn = importlib.import_module(
        "torch.multiprocessing.spawn"
    )  # the package's attribute of this name is the function
    begin = spawn._wrap

    @functools.wraps(begin)
    def begin_with_index(fn: Any, i: int, *args: Any, **kwargs: Any) -> Any:
        state.rank = i
        return begin(fn, i, *args, **kwargs)

    patches.attribute(spawn, "_wrap", begin_with_index)
    if not dist.is_available():
        return
    become = c10d._update_default_pg

    def update_default_pg(pg: Any) -> None:
        become(pg)
        if pg is not None and pg is not dist.GroupMember.NON_GROUP_MEMBER:
            state.rank = pg.rank()

    patches.attribute(c10d, "_update_default_pg", update_default_pg)
