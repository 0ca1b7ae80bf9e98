"""The caching allocator's statistics, from the ledger.

Exact: current and peak bytes allocated and reserved, the number of allocations, each pool's current bytes.
The ledger keeps no peaks per pool, no history of freed bytes and no number of live blocks; those entries
repeat the nearest number it has or stay 0.
"""

from __future__ import annotations

from typing import Any

from samedevice.runtime.state.ledger import DeviceLedger


def allocator_stats(ledger: DeviceLedger) -> dict[str, Any]:
    """As `torch._C._cuda_memoryStats`: nested, every leaf an integer."""
    small, large = ledger._small_allocated, ledger._large_allocated
    small_reserved, large_reserved = ledger._small_reserved, ledger._large_reserved
    allocated = _pools(
        _metric(ledger.allocated, ledger.peak_allocated), _metric(small, small), _metric(large, large)
    )
    reserved = _pools(
        _metric(ledger.reserved, ledger.peak_reserved),
        _metric(small_reserved, small_reserved),
        _metric(large_reserved, large_reserved),
    )
    inactive = _pools(
        _metric(ledger.reserved - ledger.allocated, ledger.reserved - ledger.allocated),
        _metric(small_reserved - small, small_reserved - small),
        _metric(large_reserved - large, large_reserved - large),
    )
    counted = _pools(_metric(0, 0) | {"allocated": ledger.allocations}, _metric(0, 0), _metric(0, 0))
    none = _pools(_metric(0, 0), _metric(0, 0), _metric(0, 0))
    return {
        "allocated_bytes": allocated,
        "requested_bytes": allocated,
        "active_bytes": allocated,
        "reserved_bytes": reserved,
        "inactive_split_bytes": inactive,
        "allocation": counted,
        "active": counted,
        "segment": none,
        "inactive_split": none,
        "oversize_allocations": _metric(0, 0),
        "oversize_segments": _metric(0, 0),
        "max_split_size": -1,
        "num_alloc_retries": 0,
        "num_ooms": 0,
        "num_sync_all_streams": 0,
        "num_device_alloc": 0,
        "num_device_free": 0,
    }


def _metric(current: int, peak: int) -> dict[str, int]:
    return {"current": current, "peak": peak, "allocated": peak, "freed": peak - current}


def _pools(every: dict[str, int], small: dict[str, int], large: dict[str, int]) -> dict[str, dict[str, int]]:
    return {"all": every, "small_pool": small, "large_pool": large}
