"""Bytes held on one virtual GPU: allocations and frees in their order, and what they come to.

Note [Allocations wait]
Which block an operator's result gets is of interest only to those who ask for addresses, reserved bytes or
statistics. So an allocation and a free are put on a list and worked off by `caching_allocator` when somebody
asks, when the list is long, or when it could not all fit: new segments are at least half full before another
is got, so what waits reserves at most twice its bytes and one segment of each kind. A free may come from
Python's garbage collector, in any thread and in the midst of anything: putting it on a list is safe there.
While history is recorded, or where streams, pools or settings decide about blocks, nothing waits.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from samedevice.events import DeviceMemory
from samedevice.runtime.state.allocator_settings import AllocatorSettings
from samedevice.runtime.state.arenas import ADDRESS, PoolId
from samedevice.runtime.state.caching_allocator import Booking, CachingAllocator, OutOfDeviceMemoryError

_MOST = 1 << 36
"""Bytes that may wait."""
_EACH = 1 << 20
"""What each allocation counts besides its bytes, so that the list stays short."""


class DeviceLedger:
    """What is booked on one device."""

    __slots__ = (
        "__weakref__",
        "_allocator",
        "_lock",
        "_owner",
        "_room",
        "_unbooked",
        "_waiting",
        "_waits",
        "index",
        "total",
    )

    def __init__(self, total: int, index: int = 0, settings: AllocatorSettings | None = None) -> None:
        self.total = total
        self.index = index
        self._allocator = CachingAllocator(total, index, settings or AllocatorSettings())
        self._waiting: deque[Booking] = deque()
        self._lock = threading.RLock()
        self._owner = 0
        """The thread that is in the allocator; 0: none."""
        self._unbooked: set[int] = set()
        """Threads whose allocations take no memory now."""
        self._choose()

    def allocate(self, nbytes: int) -> Booking | None:
        """Book `nbytes`; None where that takes no memory, as no bytes do.

        Raises `OutOfDeviceMemoryError` when it does not fit even after every cached block was released.
        """
        if not nbytes:
            return None
        booking = [nbytes, 0]
        self._room -= nbytes + _EACH
        if self._room < 0:
            return self._allocate_now(booking)
        self._waiting.append(booking)
        return booking

    def give_back(self, booking: Booking) -> None:
        """Free what was booked."""
        if self._waits or self._owner == threading.get_ident():
            self._waiting.append(booking)
        else:
            with self._alone():
                self._allocator.drop(booking[1])

    def address(self, booking: Booking) -> int:
        """Where a booking lies."""
        self.settle()
        return booking[1] & ADDRESS

    # -- what waits

    def settle(self) -> CachingAllocator:
        """The allocator after everything that waits."""
        if self._waiting and self._owner != threading.get_ident():
            with self._alone():
                pass
        return self._allocator

    @contextmanager
    def alone(self) -> Iterator[CachingAllocator]:
        """The allocator after everything that waits, to change what is set; no other thread is in it."""
        with self._alone():
            yield self._allocator
            self._choose()

    @contextmanager
    def _alone(self) -> Iterator[None]:
        with self._lock:
            if self._owner:  # this thread's own: a finalizer, in the midst of an allocation
                yield
                return
            self._owner = threading.get_ident()
            try:
                self._work_off()
                yield
            finally:
                self._owner = 0

    def _work_off(self) -> None:
        allocator, waiting = self._allocator, self._waiting
        if not waiting:
            return
        if self._waits:
            allocator.work_off(waiting)
        else:
            while waiting:
                booking = waiting.popleft()
                if booking[1]:
                    allocator.drop(booking[1])
                else:
                    booking[1] = allocator.take(booking[0])

    def _allocate_now(self, booking: Booking) -> Booking | None:
        thread = threading.get_ident()
        if thread in self._unbooked:
            return None
        if self._owner == thread:
            self._waiting.append(booking)
            return booking
        with self._alone():
            if self._waits:
                self._waiting.append(booking)
                self._allocator.work_off(self._waiting)
                self._room = min(self._allocator.room, _MOST)
            else:
                booking[1] = self._allocator.take(booking[0])
                self._room = -1
        return booking

    def _choose(self) -> None:
        """Whether allocations may wait, and how much of them."""
        self._waits = self._allocator.plain and not self._unbooked
        self._room = min(self._allocator.room, _MOST) if self._waits else -1

    @contextmanager
    def unbooked(self) -> Iterator[None]:
        """What this thread allocates takes no memory: a graph that is replayed has its own already."""
        thread = threading.get_ident()
        with self.alone():
            self._unbooked.add(thread)
        try:
            yield
        finally:
            with self.alone():
                self._unbooked.discard(thread)

    # -- what is asked

    @property
    def allocated(self) -> int:
        """Bytes of blocks in use."""
        return self.settle().tally.held

    @property
    def peak_allocated(self) -> int:
        """The most that was allocated since peaks began."""
        return self.settle().tally.held_peak

    @property
    def reserved(self) -> int:
        """Bytes of all segments."""
        return self.settle().reserved

    @property
    def peak_reserved(self) -> int:
        """The most that was reserved since peaks began."""
        return self.settle().tally.reserved.peak

    @property
    def stream(self) -> int:
        """This thread's current stream; 0 is the default one."""
        current = self._allocator.current_stream
        return 0 if current is None else current()

    @property
    def free(self) -> int:
        """Bytes that the GPU could still give, to whomever."""
        return self.settle().free

    @property
    def fraction(self) -> float:
        """Part of the GPU that this process may reserve."""
        return self._allocator.fraction

    @fraction.setter
    def fraction(self, fraction: float) -> None:
        with self.alone() as allocator:
            allocator.fraction, allocator.fraction_set = fraction, True

    def snapshot(self) -> DeviceMemory:
        """The ledger now, with the peaks of the whole run."""
        allocator = self.settle()
        return DeviceMemory(
            allocated=allocator.tally.held,
            reserved=allocator.reserved,
            peak_allocated=allocator.run_peak_allocated,
            peak_reserved=allocator.run_peak_reserved,
            total=self.total,
        )

    # -- what is done

    def configure(self, settings: AllocatorSettings) -> None:
        """Obey other settings from now on."""
        with self.alone() as allocator:
            if settings.per_process_memory_fraction != allocator.settings.per_process_memory_fraction:
                allocator.fraction, allocator.fraction_set = settings.per_process_memory_fraction, True
            allocator.settings = settings

    def empty_cache(self, pool: PoolId | None = None) -> None:
        """Release segments that hold no block."""
        with self.alone() as allocator:
            allocator.release_cached(pool)

    def fill(self, pool: PoolId, matches: Callable[[int], bool]) -> None:
        """Allocations on streams that match go to a pool from now on, which has one more user."""
        with self.alone() as allocator:
            allocator.hold_pool(pool)
            allocator.filling.append((pool, matches))

    def end_filling(self, pool: PoolId) -> None:
        """Allocations go elsewhere again; the pool is still held."""
        with self.alone() as allocator:
            found = next((entry for entry in allocator.filling if entry[0] == pool), None)
            if found is None:
                raise RuntimeError("endAllocatePool: not currently recording to mempool_id")
            allocator.filling.remove(found)

    def use_on_stream(self, booking: Booking, stream: int) -> None:
        """Another stream uses a block: it is not free before that stream is idle."""
        with self.alone() as allocator:
            if stream != allocator.stream_of(booking[1]):
                allocator.uses.setdefault(booking[1] & ADDRESS, set()).add(stream)

    def reset_peaks(self) -> None:
        """As `torch.cuda.reset_peak_memory_stats`."""
        self.settle().reset_peaks()

    def reset_added(self) -> None:
        """As `torch.cuda.reset_accumulated_memory_stats`."""
        self.settle().reset_added()

    def start_over(self) -> None:
        """As in a new process that holds the same blocks: nothing cached, no limit, no history."""
        with self.alone() as allocator:
            allocator.history.record(None)
            allocator.fraction = allocator.settings.per_process_memory_fraction
            allocator.fraction_set = allocator.fraction != 1.0
            allocator.filling.clear()
            allocator.uses.clear()
            allocator.current_stream = None
            allocator.release_cached()
            allocator.reset_peaks()
            allocator.reset_added()
            allocator.device_allocations = len(allocator.segments)
            allocator.run_peak_allocated = allocator.tally.held
            allocator.run_peak_reserved = allocator.reserved


__all__ = ["DeviceLedger", "OutOfDeviceMemoryError"]
