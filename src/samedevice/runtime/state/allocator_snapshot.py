"""The allocator as a snapshot, in the layout of `torch.cuda.memory_snapshot` that torch's viewer reads."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from itertools import pairwise
from typing import Any

from samedevice.runtime.state.allocator_history import TraceEntry, frames_of
from samedevice.runtime.state.allocator_settings import AllocatorSettings
from samedevice.runtime.state.arenas import ADDRESS, DEFAULT_POOL, SHIFT, PoolId, Segment
from samedevice.runtime.state.caching_allocator import CachingAllocator

Handle = Callable[[int], int]
"""What a program sees as the number of a stream."""


def segments_of(
    allocator: CachingAllocator, device: int, handle: Handle, pool: PoolId | None = None
) -> list[dict[str, Any]]:
    """Segments with their blocks, by address; of one pool, or of all.

    A segment that can grow is as many as it has pieces with memory.
    """
    blocks = _blocks(allocator)
    starts = sorted(blocks)
    found = []
    for segment in sorted(allocator.segments.values(), key=lambda each: each.start):
        if pool is not None and segment.arena.pool.id != pool:
            continue
        for begin, end in _pieces(segment):
            within = starts[bisect_left(starts, begin) : bisect_left(starts, end)]
            found.append(_segment(segment, [blocks[start] for start in within], device, handle))
    active = sum(segment["active_size"] for segment in found)
    allocator.history.snapshot_taken(active, allocator.arena(DEFAULT_POOL, 0, small=True))
    return found


def _blocks(allocator: CachingAllocator) -> dict[int, dict[str, Any]]:
    """Every block by its address."""
    pending = {block & ADDRESS for block in allocator.awaiting}
    free = {block & ADDRESS: block >> SHIFT for arena in allocator.arenas for block in arena.free}
    addresses = sorted([*allocator.live, *free, *_ends(allocator)])
    found = {}
    for address, following in pairwise([*addresses, 0]):
        nbytes = allocator.live.get(address)
        if nbytes is None and address not in free:
            continue
        state = "inactive" if nbytes is None else "active_allocated"
        found[address] = {
            "address": address,
            "size": free.get(address) or following - address,
            "requested_size": nbytes or 0,
            "state": "active_pending_free" if address in pending else state,
            "frames": frames_of(allocator.history.stacks.get(address)),
        }
    return found


def _ends(allocator: CachingAllocator) -> list[int]:
    return [end for segment in allocator.segments.values() for _, end in _pieces(segment)]


def _pieces(segment: Segment) -> list[tuple[int, int]]:
    """The parts of a segment that have memory."""
    at, found = segment.start, []
    for start, end in segment.unmapped or ():
        if start > at:
            found.append((at, start))
        at = end
    if at < segment.start + segment.size:
        found.append((at, segment.start + segment.size))
    return found


def _segment(segment: Segment, blocks: list[dict[str, Any]], device: int, handle: Handle) -> dict[str, Any]:
    active = [block for block in blocks if block["state"] != "inactive"]
    held = [block for block in active if block["state"] == "active_allocated"]
    return {
        "device": device,
        "address": blocks[0]["address"],
        "total_size": sum(block["size"] for block in blocks),
        "allocated_size": sum(block["size"] for block in held),
        "active_size": sum(block["size"] for block in active),
        "requested_size": sum(block["requested_size"] for block in active),
        "stream": handle(segment.arena.stream),
        "segment_type": "small" if segment.arena.small else "large",
        "segment_pool_id": segment.arena.pool.id,
        "is_expandable": segment.expandable,
        "frames": frames_of(segment.frames),
        "blocks": blocks,
    }


def trace_of(allocator: CachingAllocator, device: int, handle: Handle) -> list[dict[str, Any]]:
    """What was recorded of a device, oldest first."""
    return [_entry(entry, device, handle) for entry in list(allocator.history.entries)]


def _entry(entry: TraceEntry, device: int, handle: Handle) -> dict[str, Any]:
    found: dict[str, Any] = {} if entry.stack is None else {"frames": frames_of(entry.stack)}
    return {
        **found,
        "action": entry.action,
        "device_free" if entry.action == "oom" else "addr": entry.address,
        "size": entry.size,
        "stream": handle(entry.stream),
        "time_us": entry.time_us,
        "compile_context": "N/A",
        "user_metadata": entry.metadata,
        "pool_id": entry.pool,
        "device": device,
    }


def settings_of(settings: AllocatorSettings) -> dict[str, Any]:
    """The settings as a snapshot has them."""
    return {
        "PYTORCH_CUDA_ALLOC_CONF": settings.text,
        "max_split_size": -1 if settings.max_split_size is None else settings.max_split_size,
        "garbage_collection_threshold": settings.garbage_collection_threshold,
        "expandable_segments": settings.expandable_segments,
        "pinned_num_register_threads": settings.pinned_num_register_threads,
        "release_lock_on_cudamalloc": settings.release_lock_on_cudamalloc,
        "pinned_use_cuda_host_register": settings.pinned_use_cuda_host_register,
        "graph_capture_record_stream_reuse": settings.graph_capture_record_stream_reuse,
        "roundup_power2_divisions": {
            str(1 << power): divisions for power, divisions in enumerate(settings.roundup_power2_divisions)
        },
    }
