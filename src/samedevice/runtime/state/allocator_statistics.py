"""The caching allocator's statistics, from the allocator.

All is exact but for `inactive_split`: its current value is, while its peak is the largest of the values at
the times when somebody asked, as following it would cost each operator.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from samedevice.runtime.state.arenas import ADDRESS, SHIFT, Amount, Tally
from samedevice.runtime.state.caching_allocator import CachingAllocator

_Leaf = dict[str, int]
_POOLS = ("all", "small_pool", "large_pool")


def allocator_stats(allocator: CachingAllocator) -> dict[str, Any]:
    """As `torch._C._cuda_memoryStats`: nested, every leaf an integer."""
    tallies = (allocator.small_tally, allocator.large_tally)
    counted = _counts(allocator, "blocks")
    bytes_held = _counts(allocator, "held")
    waiting = [(block >> SHIFT, allocator.tally_of(block)) for block in allocator.awaiting]
    limit = allocator.settings.max_split_size
    return {
        "allocated_bytes": bytes_held,
        "requested_bytes": _counts(allocator, "requested"),
        "active_bytes": _with(bytes_held, tallies, waiting, lambda size: size),
        "reserved_bytes": _amounts(allocator, "reserved"),
        "inactive_split_bytes": _splits(allocator, tallies, lambda size: size, "bytes"),
        "allocation": _with(counted, tallies, waiting, lambda size: -1),
        "active": counted,
        "segment": _amounts(allocator, "segments"),
        "inactive_split": _splits(allocator, tallies, lambda size: 1, "blocks"),
        "oversize_allocations": _amount(allocator.oversize_allocations),
        "oversize_segments": _amount(allocator.oversize_segments),
        "max_split_size": -1 if limit is None else limit,
        "num_alloc_retries": allocator.retries,
        "num_ooms": allocator.oom_count,
        "num_sync_all_streams": allocator.synchronizations,
        "num_device_alloc": allocator.device_allocations,
        "num_device_free": allocator.device_frees,
    }


def _leaf(current: int, peak: int, added: int) -> _Leaf:
    return {"current": current, "peak": peak, "allocated": added, "freed": added - current}


def _amount(amount: Amount) -> _Leaf:
    return _leaf(amount.current, amount.peak, amount.added)


def _tallies(allocator: CachingAllocator) -> tuple[Tally, ...]:
    return allocator.tally, allocator.small_tally, allocator.large_tally


def _counts(allocator: CachingAllocator, name: str) -> dict[str, _Leaf]:
    parts = (name, f"{name}_peak", f"{name}_added")
    leaves = [_leaf(*(getattr(tally, part) for part in parts)) for tally in _tallies(allocator)]
    return dict(zip(_POOLS, leaves, strict=True))


def _amounts(allocator: CachingAllocator, name: str) -> dict[str, _Leaf]:
    leaves = [_amount(getattr(tally, name)) for tally in _tallies(allocator)]
    return dict(zip(_POOLS, leaves, strict=True))


def _with(
    counted: dict[str, _Leaf],
    tallies: tuple[Tally, ...],
    waiting: list[tuple[int, Tally]],
    worth: Callable[[int], int],
) -> dict[str, _Leaf]:
    """The same with blocks that wait for another stream, or without them."""
    if not waiting:
        return counted
    shares = [sum(worth(size) for size, tally in waiting if tally is each) for each in tallies]
    found = {}
    for name, share in zip(_POOLS, (sum(shares), *shares), strict=True):
        leaf = counted[name]
        current = leaf["current"] + share
        found[name] = _leaf(current, max(leaf["peak"], current), leaf["allocated"])
    return found


def _splits(
    allocator: CachingAllocator, tallies: tuple[Tally, ...], worth: Callable[[int], int], of: str
) -> dict[str, _Leaf]:
    """Free blocks whose segment is in use; what can grow has none, as in torch."""
    found = [0, 0]
    for arena in allocator.arenas:
        for block in arena.free:
            segment = allocator.segments.get(block & ADDRESS)
            whole = segment is not None and segment.size == block >> SHIFT
            if not whole and not allocator.segment_of(block & ADDRESS).expandable:
                found[tallies.index(arena.tally)] += worth(block >> SHIFT)
    counts = {}
    for name, current in zip(_POOLS, (sum(found), *found), strict=True):
        peak = allocator.seen_splits[of, name] = max(allocator.seen_splits.get((of, name), 0), current)
        counts[name] = _leaf(current, peak, peak)
    return counts
