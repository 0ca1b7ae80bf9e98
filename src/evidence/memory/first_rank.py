"""The first rank of a group of which nobody else is there."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator


@contextlib.contextmanager
def first_rank(ranks: int) -> Iterator[None]:
    """This process is the first of so many ranks."""
    import torch.distributed as dist

    dist.init_process_group("nccl", rank=0, world_size=ranks, store=dist.HashStore())  # type: ignore[attr-defined] # torch does not export it
    try:
        yield
    finally:
        dist.destroy_process_group()
