"""The blocks of a pool as they are at one time, to be put back later, as `torch.compile` does between graphs.

Must guarantee: after `restore` the segments of the checkpoint have the very blocks of then, and other
segments of the pool are free; tallies and history follow, as for frees and allocations of a program.
Source: `getCheckpointState` and `setCheckpointPoolState` in c10/cuda/CUDACachingAllocator.cpp.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

from samedevice.errors import UnsupportedFeatureError
from samedevice.runtime.state.arenas import ADDRESS, SHIFT, PoolId, Segment
from samedevice.runtime.state.caching_allocator import CachingAllocator

_Blocks = tuple[tuple[int, int | None], ...]
"""Of a segment, by address: the block, its size above its address, and the bytes asked for; None: free."""


@dataclass(frozen=True, slots=True)
class PoolCheckpoint:
    """The segments of a pool with their blocks, each by its first address."""

    pool: PoolId
    segments: Mapping[int, _Blocks]


def checkpoint_of(allocator: CachingAllocator, pool: PoolId) -> PoolCheckpoint:
    """The blocks of a pool now; raises RuntimeError where there is no such pool."""
    return PoolCheckpoint(
        pool, {segment.start: _blocks(allocator, segment) for segment in _segments(allocator, pool)}
    )


def restore(allocator: CachingAllocator, checkpoint: PoolCheckpoint) -> tuple[set[int], dict[int, int]]:
    """Put the blocks of a pool back.

    Returns the addresses of the blocks in use before, and the blocks in use after by their address.
    """
    segments = _segments(allocator, checkpoint.pool)
    gone = checkpoint.segments.keys() - {segment.start for segment in segments}
    if gone:
        raise RuntimeError(f" could not find {min(gone):#x}")
    allocator.complete_awaited(wait=True)
    freed: set[int] = set()
    made: dict[int, int] = {}
    for segment in segments:
        for block, nbytes in _blocks(allocator, segment):
            if nbytes is not None:
                freed.add(block & ADDRESS)
                allocator.drop(block)
        then = checkpoint.segments.get(segment.start)
        if then is None:
            continue
        allocator.remove_free(segment.arena, segment.size << SHIFT | segment.start)
        for block, nbytes in then:
            if nbytes is None:
                allocator.put_free(segment.arena, block & ADDRESS, block >> SHIFT)
            else:
                made[block & ADDRESS] = block
                allocator.put_in_use(segment.arena, block, nbytes)
    return freed, made


def _segments(allocator: CachingAllocator, pool: PoolId) -> list[Segment]:
    if pool not in allocator.pools:
        raise RuntimeError("Could not find private pool id")
    found = [segment for segment in allocator.segments.values() if segment.arena.pool.id == pool]
    if any(segment.expandable for segment in found):
        raise UnsupportedFeatureError(
            "The state of a pool of expandable segments cannot be kept on a virtual machine."
        )
    return found


def _blocks(allocator: CachingAllocator, segment: Segment) -> _Blocks:
    end = segment.start + segment.size
    free = [block & ADDRESS for block in segment.arena.free]
    starts = sorted(at for at in (*free, *allocator.live) if segment.start <= at < end)
    return tuple(
        ((following - at) << SHIFT | at, allocator.live.get(at)) for at, following in pairwise([*starts, end])
    )


__all__ = ["PoolCheckpoint", "checkpoint_of", "restore"]
