"""Bytes held on one virtual GPU, rounded as CUDA's caching allocator rounds them.

Rounding and segment sizes are those of `c10/core/AllocatorConfig.h` and `c10/cuda/CUDACachingAllocator.cpp`:
blocks are multiples of 512 bytes; blocks up to 1 MiB live in 2 MiB segments, blocks below 10 MiB in 20 MiB
segments, larger ones in segments of their own rounded up to 2 MiB. Fragmentation inside a pool is not
modelled: a pool grows only when its total does not suffice. The memory of the CUDA context itself is not
counted.
"""

from __future__ import annotations

from samedevice.events import DeviceMemory

_BLOCK = 512
_SMALL_BLOCK = 1 << 20
_SMALL_SEGMENT = 2 << 20
_MIDDLE_BLOCK = 10 << 20
_MIDDLE_SEGMENT = 20 << 20


class OutOfDeviceMemoryError(Exception):
    """An allocation did not fit; carries the number of bytes asked for."""

    def __init__(self, requested: int) -> None:
        super().__init__(requested)
        self.requested = requested


class DeviceLedger:
    """Allocated and reserved bytes of one device, with peaks."""

    __slots__ = (
        "_large_allocated",
        "_large_reserved",
        "_small_allocated",
        "_small_reserved",
        "allocated",
        "allocations",
        "fraction",
        "peak_allocated",
        "peak_reserved",
        "reserved",
        "run_peak_allocated",
        "run_peak_reserved",
        "total",
    )

    def __init__(self, total: int) -> None:
        self.total = total
        self.fraction = 1.0
        self.allocated = 0
        self.reserved = 0
        self.allocations = 0
        self.peak_allocated = 0
        self.peak_reserved = 0
        self.run_peak_allocated = 0
        self.run_peak_reserved = 0
        self._small_allocated = 0
        self._small_reserved = 0
        self._large_allocated = 0
        self._large_reserved = 0

    def allocate(self, nbytes: int) -> int:
        """Book `nbytes` and return the rounded size that `free` must be given.

        Raises `OutOfDeviceMemoryError` when the block does not fit even after every cached block was
        released.
        """
        size = (nbytes + _BLOCK - 1) & -_BLOCK
        if size <= _SMALL_BLOCK:
            self._small_allocated += size
            if self._small_allocated > self._small_reserved:
                self._grow(size, small=True)
        else:
            self._large_allocated += size
            if self._large_allocated > self._large_reserved:
                self._grow(size, small=False)
        self.allocations += 1
        self.allocated += size
        if self.allocated > self.peak_allocated:
            self.peak_allocated = self.allocated
            self.run_peak_allocated = max(self.run_peak_allocated, self.allocated)
        return size

    def _grow(self, size: int, *, small: bool) -> None:
        if small:
            growth = -(-(self._small_allocated - self._small_reserved) // _SMALL_SEGMENT) * _SMALL_SEGMENT
        elif size < _MIDDLE_BLOCK:
            growth = _MIDDLE_SEGMENT
        else:
            missing = self._large_allocated - self._large_reserved
            growth = -(-missing // _SMALL_SEGMENT) * _SMALL_SEGMENT
        limit = int(self.total * self.fraction)
        if self.reserved + growth > limit:
            if small:
                self._small_allocated -= size
            else:
                self._large_allocated -= size
            self.empty_cache()
            if self.allocated + size > limit:
                raise OutOfDeviceMemoryError(size)
            # What the released cache left is too small for a whole segment, yet the block itself fits.
            growth = min(growth, limit - self.reserved)
            if small:
                self._small_allocated += size
            else:
                self._large_allocated += size
        if small:
            self._small_reserved += growth
        else:
            self._large_reserved += growth
        self.reserved += growth
        self.peak_reserved = max(self.peak_reserved, self.reserved)
        self.run_peak_reserved = max(self.run_peak_reserved, self.reserved)

    def free(self, size: int) -> None:
        """Give back a block; `size` is what `allocate` returned."""
        self.allocated -= size
        if size <= _SMALL_BLOCK:
            self._small_allocated -= size
        else:
            self._large_allocated -= size

    def empty_cache(self) -> None:
        """Release segments that hold no block, as far as totals tell."""
        self._small_reserved = -(-self._small_allocated // _SMALL_SEGMENT) * _SMALL_SEGMENT
        self._large_reserved = -(-self._large_allocated // _SMALL_SEGMENT) * _SMALL_SEGMENT
        self.reserved = self._small_reserved + self._large_reserved

    def reset_peaks(self) -> None:
        """As `torch.cuda.reset_peak_memory_stats`.

        The peaks of the whole run, which the report shows, stay.
        """
        self.peak_allocated = self.allocated
        self.peak_reserved = self.reserved

    def start_over(self) -> None:
        """As in a new process that holds the same blocks: nothing cached, no limit, no history."""
        self.fraction = 1.0
        self.empty_cache()
        self.allocations = 0
        self.reset_peaks()
        self.run_peak_allocated = self.allocated
        self.run_peak_reserved = self.reserved

    def snapshot(self) -> DeviceMemory:
        """The ledger now, with the peaks of the whole run."""
        return DeviceMemory(
            allocated=self.allocated,
            reserved=self.reserved,
            peak_allocated=self.run_peak_allocated,
            peak_reserved=self.run_peak_reserved,
            total=self.total,
        )
