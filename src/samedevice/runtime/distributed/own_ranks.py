"""The rank of a process, where no launcher wrote it into its environment.

A program that makes its ranks itself gives each its number as an argument: `init_process_group(rank=...)`, or
the index that `torch.multiprocessing.spawn` hands to each process. What torch is told is kept, so that a
report can name the process.
"""

from __future__ import annotations

import functools
from typing import Any

import torch.distributed as dist

from samedevice.runtime.patching import Patch
from samedevice.runtime.state import current_machine


def _wrap(begin: Any) -> Any:
    machine = current_machine()

    @functools.wraps(begin)
    def begin_with_index(fn: Any, i: int, *args: Any, **kwargs: Any) -> Any:
        machine.rank = i
        return begin(fn, i, *args, **kwargs)

    return begin_with_index


def _update(become: Any) -> Any:
    machine = current_machine()

    def update_default_pg(pg: Any) -> None:
        become(pg)
        if pg is not None and pg is not dist.GroupMember.NON_GROUP_MEMBER:
            machine.rank = pg.rank()

    return update_default_pg


_WHY = "a report names the process by the rank that torch was told"
PATCHES = (
    Patch("torch.multiprocessing.spawn._wrap", _wrap, _WHY),
    Patch("torch.distributed.distributed_c10d._update_default_pg", _update, _WHY),
)
