"""Segments that grow: address space for the whole GPU, which gets memory page by page.

As `expandable_segments:True` has them: one for each pool and stream, in pages of 2 MiB for small blocks and
20 MiB for large ones.
"""

from __future__ import annotations

from typing import Any, Protocol

from samedevice.runtime.state.arenas import ADDRESS, SHIFT, Arena, Segment

_SPACE = 1 << 42
"""Bytes of address space that one segment takes at most, more than any GPU has."""


class Books(Protocol):
    """What is needed of a ledger."""

    total: int
    segments: dict[int, Segment]

    def free_at(self, address: int) -> int:
        """Size of the free block that begins there; 0 for none."""

    def free_before(self, address: int) -> int | None:
        """Start of the free block that ends there."""

    def put_free(self, arena: Arena, address: int, size: int) -> int:
        """Enter a free block."""

    def remove_free(self, arena: Arena, block: int) -> None:
        """Take a free block out of its arena."""

    def detach(self, arena: Arena, block: int) -> int:
        """Take a free block out of its arena's list alone."""

    def fits(self, amount: int) -> bool:
        """Whether the GPU has so many bytes left."""

    def change_reserved(self, arena: Arena, by: int) -> None:
        """Memory was got or given back."""

    def new_addresses(self, size: int) -> int:
        """Addresses that nothing uses."""

    def leave_addresses(self, address: int, size: int) -> None:
        """Addresses that nothing uses any more."""

    def note_segment(self, action: str, address: int, size: int, arena: Arena, frames: Any = None) -> Any:
        """Record what happens to a segment."""


def reach(segment: Segment, block: int) -> int:
    """How large a free block can become where what follows it has no memory yet."""
    size, end = block >> SHIFT, (block & ADDRESS) + (block >> SHIFT)
    return size + next((stop - start for start, stop in segment.unmapped or () if start == end), 0)


def extend(books: Books, arena: Arena, size: int) -> int | None:
    """A free block of at least `size` bytes, in no list; None where the GPU has not the memory."""
    segment, start = _room(books, arena, size)
    while (have := books.free_at(start)) < size:
        assert segment.unmapped is not None
        at = next(n for n, (begin, _) in enumerate(segment.unmapped) if begin == start + have)
        begin, end = segment.unmapped[at]
        amount = min(-(-(size - have) // segment.page) * segment.page, end - begin)
        if not books.fits(amount):
            return None
        segment.unmapped[at : at + 1] = [(begin + amount, end)] if begin + amount < end else []
        books.change_reserved(arena, amount)
        frames = books.note_segment("segment_map", begin, amount, arena)
        segment.frames = segment.frames or frames
        books.put_free(arena, begin, amount)
    return books.detach(arena, have << SHIFT | start)


def _room(books: Books, arena: Arena, size: int) -> tuple[Segment, int]:
    """The lowest address with room for `size`, free or without memory yet; a new segment has it always."""
    for segment in sorted(books.segments.values(), key=lambda each: each.start):
        if segment.arena is not arena or segment.unmapped is None:
            continue
        for begin, _ in segment.unmapped:
            before = books.free_before(begin)
            start = begin if before is None else before
            if _extent(books, segment, start) >= size:
                return segment, start
    page = 2 << 20 if arena.small else 20 << 20
    space = min(-(-(books.total + books.total // 8) // page) * page, _SPACE)
    start = books.new_addresses(space)
    made = books.segments[start] = Segment(start, space, arena, [(start, start + space)])
    arena.pool.segments += 1
    return made, start


def _extent(books: Books, segment: Segment, start: int) -> int:
    """Bytes from `start` on that are free or have no memory yet."""
    unmapped = dict(segment.unmapped or ())
    at = start
    while at < segment.start + segment.size:
        following = unmapped.get(at) or at + books.free_at(at)
        if following == at:
            break
        at = following
    return at - start


def unmap(books: Books, arena: Arena, segment: Segment, block: int) -> None:
    """Give back the whole pages of a free block."""
    assert segment.unmapped is not None
    size, address = block >> SHIFT, block & ADDRESS
    page, origin = segment.page, segment.start
    first = origin + -(-(address - origin) // page) * page
    last = origin + (address + size - origin) // page * page
    if last <= first:
        return
    books.remove_free(arena, block)
    for start, end in ((address, first), (last, address + size)):
        if end > start:
            books.put_free(arena, start, end - start)
    books.change_reserved(arena, first - last)
    books.note_segment("segment_unmap", first, last - first, arena, segment.frames)
    ranges = sorted([*segment.unmapped, (first, last)])
    merged = ranges[:1]
    for start, end in ranges[1:]:
        if merged[-1][1] == start:
            merged[-1] = (merged[-1][0], end)
        else:
            merged.append((start, end))
    segment.unmapped = merged
    if merged == [(origin, origin + segment.size)]:
        del books.segments[origin]
        arena.pool.segments -= 1
        books.leave_addresses(origin, segment.size)
