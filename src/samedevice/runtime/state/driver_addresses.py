"""Where the driver lays what `cudaMalloc` gives: the addresses of one GPU.

Of free blocks of one size the caching allocator takes the one with the lowest address, so the order of
segments decides which of them are split. NVIDIA does not document that order. These rules explain which
blocks programs got on an H100, and were seen there in recorded addresses (`docs/measurements.md`): address
space is reserved from the top down, in windows of 32 MiB; memory lies at the lowest place that is free in a
window; a window without memory is given back. The context has reserved some more than it needs, and the first
memory is laid there.
The code of kernels and other libraries' memory lie in the same space; they are left out.
"""

from __future__ import annotations

from bisect import bisect_left, insort

_PAGE = 2 << 20
_WINDOW = 32 << 20
_OF_CONTEXT = 2 * _WINDOW
"""What the context has reserved and leaves free."""


class DriverAddresses:
    """The addresses below `top`."""

    def __init__(self, top: int) -> None:
        first = top - _OF_CONTEXT - _WINDOW  # the context itself lies in one window more
        self._reserved: dict[int, int] = {first: top}
        """The end of each reservation, by its start."""
        self._unreserved: list[tuple[int, int]] = [(0, first)]
        """Start and end of each range, ascending."""
        self._holes: dict[int, list[int]] = {}
        """Starts of what is free in reservations, ascending, by size; never an empty list."""
        self._starts: dict[int, int] = {}
        """Size of each hole, by its start."""
        self._ends: dict[int, int] = {}
        """Start of each hole, by its end."""
        self._enter(first + _WINDOW, top)

    def take(self, size: int) -> int:
        """Where memory of `size` bytes lies."""
        size = _pages(size)
        fitting = [starts[0] for hole, starts in self._holes.items() if hole >= size]
        start = min(fitting) if fitting else self._reserve(-(-size // _WINDOW) * _WINDOW)
        end = start + self._leave(start)
        if start + size < end:
            self._enter(start + size, end)
        return start

    def give_back(self, start: int, size: int) -> None:
        """Memory at an address is gone."""
        end = start + _pages(size)
        if end in self._starts and end not in self._reserved:
            end += self._leave(end)
        if start in self._ends and start not in self._reserved:
            start = self._ends[start]
            self._leave(start)
        if self._reserved.get(start) == end:
            del self._reserved[start]
            self._unreserve(start, end)
        else:
            self._enter(start, end)

    def _reserve(self, size: int) -> int:
        at = next(
            at
            for at in range(len(self._unreserved) - 1, -1, -1)
            if self._unreserved[at][1] - self._unreserved[at][0] >= size
        )
        begin, end = self._unreserved[at]
        start = end - size
        self._unreserved[at : at + 1] = [(begin, start)] if begin < start else []
        self._reserved[start] = end
        self._enter(start, end)
        return start

    def _unreserve(self, start: int, end: int) -> None:
        at = bisect_left(self._unreserved, (start, end))
        ranges = [*self._unreserved[max(at - 1, 0) : at], (start, end), *self._unreserved[at : at + 1]]
        merged = ranges[:1]
        for begin, stop in ranges[1:]:
            if merged[-1][1] == begin:
                merged[-1] = (merged[-1][0], stop)
            else:
                merged.append((begin, stop))
        self._unreserved[max(at - 1, 0) : at + 1] = merged

    def _enter(self, start: int, end: int) -> None:
        self._starts[start], self._ends[end] = end - start, start
        insort(self._holes.setdefault(end - start, []), start)

    def _leave(self, start: int) -> int:
        """A hole is none any more; returns its size."""
        size = self._starts.pop(start)
        del self._ends[start + size]
        starts = self._holes[size]
        del starts[bisect_left(starts, start)]
        if not starts:
            del self._holes[size]
        return size


def _pages(size: int) -> int:
    return -(-size // _PAGE) * _PAGE


__all__ = ["DriverAddresses"]
