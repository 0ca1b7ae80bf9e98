"""Blocks and segments of one virtual GPU, as CUDA's caching allocator keeps them.

The rules are those of `c10/cuda/CUDACachingAllocator.cpp` and `c10/core/AllocatorConfig.h`. Blocks are
multiples of 512 bytes; blocks up to 1 MiB live in segments of 2 MiB, blocks below 10 MiB in segments of
20 MiB, larger ones in segments of their own, rounded up to 2 MiB. The smallest free block that is large
enough is taken, the one with the lowest address of several, and split where enough is left; neighbours that
are free become one block again. What does not fit is tried again after the cache was released. What the
settings change stands in `allocator_settings`, segments that grow in `expandable`, where segments lie in
`driver_addresses`.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import deque
from collections.abc import Callable
from typing import Any

from samedevice.runtime.state import expandable
from samedevice.runtime.state.allocator_history import History
from samedevice.runtime.state.allocator_settings import AllocatorSettings
from samedevice.runtime.state.arenas import (
    ADDRESS,
    BLOCK,
    DEFAULT_POOL,
    MIDDLE_BLOCK,
    ROUND,
    SHIFT,
    SMALL_BLOCK,
    SMALL_SEGMENT,
    Amount,
    Arena,
    Pool,
    PoolId,
    Segment,
    Tally,
)
from samedevice.runtime.state.driver_addresses import DriverAddresses

_FIRST_ADDRESS = 1 << 46
_ADDRESSES = 1 << 44
"""Addresses of one GPU: twice the driver's, so that blocks of two segments are never neighbours."""

Booking = list[int]
"""Bytes asked for, and the block that they got: 0 until it is known, its size above its address then."""


class OutOfDeviceMemoryError(Exception):
    """An allocation did not fit; carries the number of bytes that the GPU was asked for."""

    def __init__(self, requested: int) -> None:
        super().__init__(requested)
        self.requested = requested


class CachingAllocator:
    """The blocks of one GPU, for one thread at a time."""

    def __init__(self, total: int, index: int, settings: AllocatorSettings) -> None:
        self.total = total
        self.settings = settings
        self.outside = 0
        """Bytes of the GPU that others have: the context of CUDA, libraries."""
        self.history = History(index)
        self.fraction = settings.per_process_memory_fraction
        """Part of the GPU that may be reserved."""
        self.fraction_set = self.fraction != 1.0
        self.filling: list[tuple[PoolId, Callable[[int], bool]]] = []
        """Pools that allocations go to now, with the streams whose allocations do."""
        self.capturing = 0
        """Graphs that are captured now."""
        self.current_stream: Callable[[], int] | None = None
        """Tells the current stream, once there is another than the default one."""
        self.stream_idle: Callable[[int], bool] = lambda stream: True
        self._without_cache: dict[int, int] = {}
        """Bytes of memory that did not come from the cache, by its address."""
        self.uses: dict[int, set[int]] = {}
        """Other streams that use a block, by its address."""
        self._driver = DriverAddresses((_FIRST_ADDRESS + (index + 1) * _ADDRESSES) // 2)
        self.tally, self.small_tally, self.large_tally = Tally(), Tally(), Tally()
        default = Pool(DEFAULT_POOL)
        self.pools: dict[PoolId, Pool] = {DEFAULT_POOL: default}
        self._small = Arena(default, 0, True, self.small_tally)
        self._large = Arena(default, 0, False, self.large_tally)
        self._arenas: dict[tuple[PoolId, int, bool], Arena] = {
            (DEFAULT_POOL, 0, True): self._small,
            (DEFAULT_POOL, 0, False): self._large,
        }
        self._starts: dict[int, int] = {}
        """Size of each free block, by its start."""
        self._ends: dict[int, int] = {}
        """Start of each free block, by its end."""
        self.live: dict[int, int] = {}
        """Bytes asked for of each block in use, by its address."""
        self._other: dict[int, Arena] = {}
        """Arenas of blocks in use that are not of the default ones."""
        self._awaited: dict[int, set[int]] = {}
        """Blocks that were freed while other streams use them."""
        self.segments: dict[int, Segment] = {}
        self.run_peak_allocated = self.run_peak_reserved = 0
        self.oversize_allocations, self.oversize_segments = Amount(), Amount()
        self.retries = self.oom_count = self.synchronizations = 0
        self.device_allocations = self.device_frees = 0
        self.seen_splits: dict[tuple[str, str], int] = {}
        """The largest of the free parts of segments in use, when they were asked for."""

    @property
    def reserved(self) -> int:
        """Bytes of all segments."""
        return self.tally.reserved.current

    @property
    def free(self) -> int:
        """Bytes that the GPU could still give, to whomever."""
        return max(self.total - self.outside - self.reserved, 0)

    @property
    def plain(self) -> bool:
        """Whether a block depends on nothing but sizes: defaults, one stream, one pool, nobody watches."""
        settings = self.settings
        return not (
            self.history.on
            or self.filling
            or self.current_stream is not None
            or self.uses
            or self._awaited
            or self.collects
            or settings.max_split_size is not None
            or settings.expandable_segments
            or any(settings.roundup_power2_divisions)
            or settings.large_segment != AllocatorSettings().large_segment
            or any(pool.use_on_oom for pool in self.pools.values())
        )

    @property
    def collects(self) -> bool:
        """Whether segments that were not used for long are given back at a threshold."""
        return self.fraction_set and self.settings.garbage_collection_threshold > 0

    @property
    def awaiting(self) -> list[int]:
        """Blocks that were freed and that other streams still use."""
        return list(self._awaited)

    @property
    def arenas(self) -> list[Arena]:
        """All arenas."""
        return list(self._arenas.values())

    @property
    def room(self) -> int:
        """Bytes that can be allocated for sure: new segments are at least half full before the next."""
        limit = min(int(self.total * self.fraction), self.total - self.outside)
        return (limit - self.reserved - self.settings.large_segment - SMALL_SEGMENT) // 2

    def take_outside(self, size: int) -> int:
        """Memory of the GPU that the cache knows nothing of; returns its address."""
        if not self.fits(size):
            raise OutOfDeviceMemoryError(size)
        address = self.new_addresses(size)
        self._without_cache[address] = size
        self.outside += size
        return address

    def leave_outside(self, address: int) -> None:
        """Give such memory back."""
        size = self._without_cache.pop(address)
        self.outside -= size
        self.leave_addresses(address, size)

    # -- taking and giving back

    def work_off(self, waiting: deque[Booking]) -> None:
        """Do allocations and frees in their order, where `plain` holds.

        A booking that has its block already is given back. Raises `OutOfDeviceMemoryError`.
        """
        # Long: the way of nearly every operator's result, kept in one piece for speed.
        live, starts, ends, tally = self.live, self._starts, self._ends, self.tally
        while waiting:
            booking = waiting.popleft()
            nbytes, block = booking
            if block:
                size, address = block >> SHIFT, block & ADDRESS
                del live[address]
                arena = self._other.pop(address, None) if self._other else None
                if arena is None:
                    arena = self._small if size <= SMALL_BLOCK else self._large
                free = arena.free
                tally.drop(size, nbytes)
                arena.tally.drop(size, nbytes)
                end = address + size
                if after := starts.pop(end, 0):
                    del free[bisect_left(free, after << SHIFT | end)]
                    end += after
                if before := ends.pop(address, 0):
                    del free[bisect_left(free, (address - before) << SHIFT | before)]
                    address = before
                starts[address] = size = end - address
                ends[end] = address
                insort(free, size << SHIFT | address)
                continue
            size = (nbytes + 511) & -BLOCK
            arena = self._small if size <= SMALL_BLOCK else self._large
            free = arena.free
            at = bisect_left(free, size << SHIFT)
            block = free.pop(at) if at < len(free) else self._obtain(arena, size)
            address, left = block & ADDRESS, (block >> SHIFT) - size
            del starts[address]
            if left > SMALL_BLOCK or (left and arena.small):
                rest = address + size
                insort(free, left << SHIFT | rest, 0, at)
                starts[rest] = left
                ends[rest + left] = rest
            else:
                size += left
                del ends[address + size]
            live[address] = nbytes
            tally.take(size, nbytes)
            arena.tally.take(size, nbytes)
            if tally.held > self.run_peak_allocated:  # noqa: PLR1730  # a call would cost more
                self.run_peak_allocated = tally.held
            booking[1] = size << SHIFT | address

    def take(self, nbytes: int) -> int:
        """A block for `nbytes`, whatever is set; raises `OutOfDeviceMemoryError`."""
        if self._awaited and not self.capturing:
            self.complete_awaited()
        size = self._rounded(nbytes)
        arena = self._arena_now(size)
        if self.collects:
            arena.searches += 1
        block = self._best_fit(arena, size)
        if block is None:
            block = self._obtain(arena, size)
            del self._starts[block & ADDRESS], self._ends[(block & ADDRESS) + (block >> SHIFT)]
            arena = self.segment_of(block & ADDRESS).arena  # another pool's, where that is the last resort
        else:
            self.remove_free(arena, block)
        address, left = block & ADDRESS, (block >> SHIFT) - size
        if self._splits(arena, size, left):
            rest = address + size
            self._starts[rest], self._ends[rest + left] = left, rest
            insort(arena.free, left << SHIFT | rest)
            if self.collects:
                arena.born[rest] = arena.searches
        else:
            size += left
        taken = size << SHIFT | address
        self.put_in_use(arena, taken, nbytes)
        return taken

    def put_in_use(self, arena: Arena, block: int, nbytes: int) -> None:
        """A block that is in no list of free ones is in use from now on."""
        size, address = block >> SHIFT, block & ADDRESS
        self.live[address] = nbytes
        if arena is not self._small and arena is not self._large:
            self._other[address] = arena
        self.tally.take(size, nbytes)
        arena.tally.take(size, nbytes)
        self.run_peak_allocated = max(self.run_peak_allocated, self.tally.held)
        if self.settings.max_split_size is not None and size >= self.settings.max_split_size:
            self.oversize_allocations.change(1)
        self.history.allocated(address, nbytes, arena)

    def drop(self, block: int) -> None:
        """Give a block back, whatever is set."""
        size, address = block >> SHIFT, block & ADDRESS
        nbytes = self.live[address]
        arena = self._arena_of(block)
        self.history.freed(address, nbytes, arena)
        if self.settings.max_split_size is not None and size >= self.settings.max_split_size:
            self.oversize_allocations.change(-1)
        others = self.uses.pop(address, None)
        if others is None:
            self._complete(block)
            return
        self.tally.held -= size
        arena.tally.held -= size
        self._awaited[block] = others

    def _complete(self, block: int) -> None:
        """A block that nobody uses any more is free."""
        size, address = block >> SHIFT, block & ADDRESS
        arena = self._arena_of(block)
        nbytes = self.live.pop(address)
        self._other.pop(address, None)
        self.history.completed(address, nbytes, arena)
        gone = 0 if self._awaited.pop(block, None) else size  # what waited is not held any more
        self.tally.drop(gone, nbytes)
        arena.tally.drop(gone, nbytes)
        self.put_free(arena, address, size)

    def complete_awaited(self, *, wait: bool = False) -> None:
        """Blocks that no other stream uses any more are free; `wait`: the host waits for all of them."""
        for block, streams in list(self._awaited.items()):
            if wait or all(self.stream_idle(stream) for stream in streams):
                self._complete(block)

    def _arena_of(self, block: int) -> Arena:
        """Where a block in use is from."""
        size, address = block >> SHIFT, block & ADDRESS
        return self._other.get(address) or (self._small if size <= SMALL_BLOCK else self._large)

    def stream_of(self, block: int) -> int:
        """The stream that a block in use was allocated on."""
        return self._arena_of(block).stream

    def tally_of(self, block: int) -> Tally:
        """The counts of the pool that a block in use is from."""
        return self._arena_of(block).tally

    def _best_fit(self, arena: Arena, size: int) -> int | None:
        """The free block to take; None where there is none that may be taken."""
        free, settings = arena.free, self.settings
        at = bisect_left(free, size << SHIFT)
        if at == len(free):
            return None
        if (segment := self.segment_of(free[at] & ADDRESS)).expandable:
            if settings.expandable_segments:
                # An expandable block counts as large as it can grow.
                while at + 1 < len(free) and segment.expandable:
                    other = self.segment_of(free[at + 1] & ADDRESS)
                    if expandable.reach(other, free[at + 1]) >= expandable.reach(segment, free[at]):
                        break
                    at, segment = at + 1, other
            else:
                while at < len(free) and self.segment_of(free[at] & ADDRESS).expandable:
                    at += 1
                if at == len(free):
                    return None
        found = free[at] >> SHIFT
        limit = settings.max_split_size
        if limit is not None and (
            (size < limit <= found) or (size >= limit and found >= size + settings.max_non_split_rounding)
        ):
            return None
        return free[at]

    def _splits(self, arena: Arena, size: int, left: int) -> bool:
        if arena.pool.no_split:
            return False
        if arena.small or self.settings.expandable_segments:
            return left >= BLOCK
        limit = self.settings.max_split_size
        return (limit is None or size < limit) and left > SMALL_BLOCK

    def _rounded(self, nbytes: int) -> int:
        if nbytes < BLOCK:
            return BLOCK
        divisions = self.settings.divisions(nbytes)
        if divisions > 1 and nbytes > BLOCK * divisions:
            if nbytes.bit_count() == 1:
                return nbytes
            floor = 1 << (nbytes.bit_length() - 1)
            step = floor >> (divisions.bit_length() - 1)
            return -(-nbytes // step) * step if step else floor << 1
        return (nbytes + BLOCK - 1) & -BLOCK

    # -- free blocks

    def put_free(self, arena: Arena, address: int, size: int) -> int:
        """Enter a free block, one with its free neighbours; returns that one."""
        end = address + size
        if after := self._starts.get(end):
            self.remove_free(arena, after << SHIFT | end)
            end += after
        if (before := self._ends.get(address)) is not None:
            self.remove_free(arena, (address - before) << SHIFT | before)
            address = before
        size = end - address
        self._starts[address], self._ends[end] = size, address
        insort(arena.free, size << SHIFT | address)
        if self.collects:
            arena.born[address] = arena.searches
        return size << SHIFT | address

    def remove_free(self, arena: Arena, block: int) -> None:
        """Take a free block out of its arena."""
        size, address = block >> SHIFT, block & ADDRESS
        del arena.free[bisect_left(arena.free, block)]
        del self._starts[address]
        del self._ends[address + size]
        arena.born.pop(address, None)

    def detach(self, arena: Arena, block: int) -> int:
        """Take a free block out of its arena's list, on its way to be used."""
        del arena.free[bisect_left(arena.free, block)]
        arena.born.pop(block & ADDRESS, None)
        return block

    def free_at(self, address: int) -> int:
        """Size of the free block that begins there; 0 for none."""
        return self._starts.get(address, 0)

    def free_before(self, address: int) -> int | None:
        """Start of the free block that ends there."""
        return self._ends.get(address)

    def arena(self, pool: PoolId, stream: int, *, small: bool) -> Arena:
        """The arena of a pool and a stream."""
        found = self._arenas.get((pool, stream, small))
        if found is None:
            tally = self.small_tally if small else self.large_tally
            found = self._arenas[pool, stream, small] = Arena(self.pools[pool], stream, small, tally)
        return found

    def _arena_now(self, size: int) -> Arena:
        stream = self.current_stream() if self.current_stream is not None else 0
        pool = next((pool for pool, matches in self.filling if matches(stream)), DEFAULT_POOL)
        return self.arena(pool, stream, small=size <= SMALL_BLOCK)

    # -- segments

    def segment_of(self, address: int) -> Segment:
        """The segment that an address lies in."""
        found = self.segments.get(address)
        if found is None:
            starts = sorted(self.segments)
            found = self.segments[starts[bisect_left(starts, address + 1) - 1]]
        return found

    def _segment_size(self, size: int) -> int:
        if size <= SMALL_BLOCK:
            return SMALL_SEGMENT
        if size < MIDDLE_BLOCK:
            return self.settings.large_segment
        return -(-size // ROUND) * ROUND

    def fits(self, amount: int) -> bool:
        """Whether the GPU has so many bytes left for this process."""
        reserved = self.reserved
        return reserved + amount <= int(self.total * self.fraction) and (
            reserved + amount <= self.total - self.outside
        )

    def _obtain(self, arena: Arena, size: int) -> int:
        """A free block from the GPU, in no arena's list; tries again after releasing what is cached."""
        amount = self._segment_size(size)
        if self.collects:
            self._collect_garbage()
        block = self._extend(arena, size, amount)
        if block is None and self._release_oversize(arena, size):
            block = self._extend(arena, size, amount)
        if block is None and not self.capturing:
            self.release_cached()
            self.retries += 1
            block = self._extend(arena, size, amount)
        if block is None:
            block = self._from_pools_of_last_resort(arena, size)
        if block is None:
            self.oom_count += 1
            self.history.out_of_memory(self.free, size, arena)
            raise OutOfDeviceMemoryError(amount)
        return block

    def _extend(self, arena: Arena, size: int, amount: int) -> int | None:
        if not self.fits(amount):
            return None
        if self.settings.expandable_segments:
            return expandable.extend(self, arena, size)
        start = self._new_segment(arena, amount)
        self._starts[start], self._ends[start + amount] = amount, start
        return amount << SHIFT | start

    def _new_segment(self, arena: Arena, amount: int) -> int:
        start = self.new_addresses(amount)
        segment = self.segments[start] = Segment(start, amount, arena)
        segment.frames = self.note_segment("segment_alloc", start, amount, arena)
        self.change_reserved(arena, amount)
        self.tally.segments.change(1)
        arena.tally.segments.change(1)
        arena.pool.segments += 1
        limit = self.settings.max_split_size
        if limit is not None and amount >= limit:
            self.oversize_segments.change(1)
        return start

    def new_addresses(self, size: int) -> int:
        """Addresses that nothing uses."""
        return 2 * self._driver.take(size)

    def leave_addresses(self, address: int, size: int) -> None:
        """Addresses that nothing uses any more."""
        self._driver.give_back(address // 2, size)

    def note_segment(self, action: str, address: int, size: int, arena: Arena, frames: Any = None) -> Any:
        """Record what happens to a segment; returns where, while that is recorded."""
        return self.history.segment(action, address, size, arena, frames)

    def change_reserved(self, arena: Arena, by: int) -> None:
        """Memory was got from the GPU, or given back to it."""
        self.tally.reserved.change(by)
        arena.tally.reserved.change(by)
        self.run_peak_reserved = max(self.run_peak_reserved, self.reserved)
        if by > 0:
            self.device_allocations += 1
        else:
            self.device_frees += 1

    def _release(self, arena: Arena, block: int) -> None:
        """Give a whole segment back to the GPU."""
        size, address = block >> SHIFT, block & ADDRESS
        self.remove_free(arena, block)
        segment = self.segments.pop(address)
        self.note_segment("segment_free", address, size, arena, segment.frames)
        self.change_reserved(arena, -size)
        self.tally.segments.change(-1)
        arena.tally.segments.change(-1)
        arena.pool.segments -= 1
        self.leave_addresses(address, size)
        limit = self.settings.max_split_size
        if limit is not None and size >= limit:
            self.oversize_segments.change(-1)

    def _release_arena(self, arena: Arena) -> None:
        """Give back every segment that holds no block, and free pages of those that can grow."""
        for block in list(arena.free):
            segment = self.segment_of(block & ADDRESS)
            if segment.expandable:
                expandable.unmap(self, arena, segment, block)
            elif segment.start == block & ADDRESS and segment.size == block >> SHIFT:
                self._release(arena, block)

    def release_cached(self, pool: PoolId | None = None) -> None:
        """Give back what no block holds: of the default pool and of pools that nobody uses, or of one."""
        self.complete_awaited(wait=True)
        self.synchronizations += 1
        for key, arena in list(self._arenas.items()):
            if pool is not None and key[0] != pool:
                continue
            if key[0] == DEFAULT_POOL or arena.pool.uses == 0:
                self._release_arena(arena)
        for gone in [each for each in self.pools.values() if each.id != DEFAULT_POOL]:
            if gone.uses == 0 and gone.segments == 0:
                del self.pools[gone.id]
                self._arenas = {key: arena for key, arena in self._arenas.items() if key[0] != gone.id}

    def _release_oversize(self, arena: Arena, size: int) -> bool:
        """With `max_split_size_mb`: give back blocks too large to be split, no more than are needed."""
        limit = self.settings.max_split_size
        if limit is None:
            return False
        wanted = max(size, limit)
        at = bisect_left(arena.free, wanted << SHIFT)
        if at < len(arena.free) and not self.segment_of(arena.free[at] & ADDRESS).expandable:
            self._release(arena, arena.free[at])
            return True
        released = 0
        for block in reversed(arena.free[:at]):
            if released >= wanted or block >> SHIFT < limit:
                break
            if not self.segment_of(block & ADDRESS).expandable:
                self._release(arena, block)
                released += block >> SHIFT
        return released >= wanted

    def _collect_garbage(self) -> None:
        """Give back the large segments that were not used for the longest, down to the threshold."""
        threshold = int(self.settings.garbage_collection_threshold * int(self.total * self.fraction))
        target = self.reserved - threshold
        if target <= 0:
            return
        whole = {
            block: owner.searches - owner.born.get(block & ADDRESS, 0)
            for owner in self._arenas.values()
            if owner.pool.id == DEFAULT_POOL and not owner.small
            for block in owner.free
            if (segment := self.segments.get(block & ADDRESS)) is not None
            and not segment.expandable
            and segment.size == block >> SHIFT
        }
        reclaimed, freed = 0, True
        while reclaimed < target and freed and whole:
            average, freed = sum(whole.values()) / len(whole), False
            for block in [each for each, age in whole.items() if age >= average]:
                del whole[block]
                reclaimed += block >> SHIFT
                self._release(self.segments[block & ADDRESS].arena, block)
                freed = True

    def _from_pools_of_last_resort(self, arena: Arena, size: int) -> int | None:
        for pool in self.pools.values():
            if pool.use_on_oom:
                other = self._arenas.get((pool.id, arena.stream, arena.small))
                block = None if other is None else self._best_fit(other, size)
                if other is not None and block is not None:
                    return self.detach(other, block)
        return None

    def hold_pool(self, pool: PoolId) -> Pool:
        """One more user of a pool, which is made where there is none."""
        found = self.pools.get(pool)
        if found is None:
            found = self.pools[pool] = Pool(pool)
        else:
            found.uses += 1
        return found

    def leave_pool(self, pool: PoolId) -> None:
        """One user fewer; without any its memory may be given back."""
        if (found := self.pools.get(pool)) is not None:
            found.uses -= 1

    # -- statistics

    def reset_peaks(self) -> None:
        """As `torch.cuda.reset_peak_memory_stats`.

        The peaks of the whole run, which the report shows, stay.
        """
        for tally in (self.tally, self.small_tally, self.large_tally):
            tally.reset_peaks()
        self.oversize_allocations.reset_peak()
        self.oversize_segments.reset_peak()
        self.seen_splits.clear()

    def reset_added(self) -> None:
        """As `torch.cuda.reset_accumulated_memory_stats`: what was added begins at nothing."""
        for tally in (self.tally, self.small_tally, self.large_tally):
            tally.reset_added()
        self.oversize_allocations.reset_added()
        self.oversize_segments.reset_added()
        self.retries = self.oom_count = self.synchronizations = 0
        self.device_allocations = self.device_frees = 0


__all__ = ["Booking", "CachingAllocator", "OutOfDeviceMemoryError"]
