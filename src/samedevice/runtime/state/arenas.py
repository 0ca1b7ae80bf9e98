"""What the caching allocator keeps its memory in: segments, the free blocks of a pool, and counts of both."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

PoolId = tuple[int, int]
DEFAULT_POOL: PoolId = (0, 0)

BLOCK = 512
"""Blocks are multiples of it."""
SMALL_BLOCK = 1 << 20
"""The largest block of a small pool."""
SMALL_SEGMENT = 2 << 20
MIDDLE_BLOCK = 10 << 20
"""Larger ones get a segment of their own, rounded up to `ROUND`."""
ROUND = 2 << 20

SHIFT = 52
"""A block is one number, its size above its address, so that sorted numbers are sorted by size first."""
ADDRESS = (1 << SHIFT) - 1


@dataclass(slots=True)
class Amount:
    """A number that grows and shrinks, with its peak and all that was ever added."""

    current: int = 0
    peak: int = 0
    added: int = 0

    def change(self, by: int) -> None:
        """Add, or take away where it is negative."""
        self.current += by
        if by > 0:
            self.added += by
            self.peak = max(self.peak, self.current)

    def reset_peak(self) -> None:
        """The peak begins anew."""
        self.peak = self.current

    def reset_added(self) -> None:
        """What was added begins anew, with what there is."""
        self.added = self.current


class Tally:
    """Blocks and segments of all pools, of all small ones, or of all large ones.

    Plain numbers, as each allocation changes nine of them.
    """

    __slots__ = (
        "blocks",
        "blocks_added",
        "blocks_peak",
        "held",
        "held_added",
        "held_peak",
        "requested",
        "requested_added",
        "requested_peak",
        "reserved",
        "segments",
    )

    def __init__(self) -> None:
        self.held = self.held_peak = self.held_added = 0
        """Bytes of blocks in use."""
        self.requested = self.requested_peak = self.requested_added = 0
        """Bytes that were asked for, before any rounding."""
        self.blocks = self.blocks_peak = self.blocks_added = 0
        self.reserved = Amount()
        self.segments = Amount()

    def take(self, size: int, nbytes: int) -> None:
        """A block of `size` bytes came into use for `nbytes`."""
        self.held = held = self.held + size
        self.held_added += size
        if held > self.held_peak:  # noqa: PLR1730  # a call would cost more, here and below
            self.held_peak = held
        self.requested = held = self.requested + nbytes
        self.requested_added += nbytes
        if held > self.requested_peak:  # noqa: PLR1730
            self.requested_peak = held
        self.blocks = held = self.blocks + 1
        self.blocks_added += 1
        if held > self.blocks_peak:  # noqa: PLR1730
            self.blocks_peak = held

    def drop(self, size: int, nbytes: int) -> None:
        """A block is not in use any more."""
        self.held -= size
        self.requested -= nbytes
        self.blocks -= 1

    def reset_peaks(self) -> None:
        """Peaks begin anew."""
        self.held_peak, self.requested_peak, self.blocks_peak = self.held, self.requested, self.blocks
        self.reserved.reset_peak()
        self.segments.reset_peak()

    def reset_added(self) -> None:
        """What was added begins anew, with what there is."""
        self.held_added, self.requested_added, self.blocks_added = self.held, self.requested, self.blocks
        self.reserved.reset_added()
        self.segments.reset_added()


@dataclass(slots=True, eq=False)
class Pool:
    """The memory of one purpose: the default one, a graph's, a program's own."""

    id: PoolId
    uses: int = 1
    """How many graphs and programs hold it; at none its memory may be given back."""
    segments: int = 0
    no_split: bool = False
    use_on_oom: bool = False


@dataclass(slots=True, eq=False)
class Arena:
    """Free blocks of a pool that one stream may take, small ones or large ones."""

    pool: Pool
    stream: int
    small: bool
    tally: Tally
    free: list[int] = field(default_factory=list)
    """Size above address, ascending."""
    searches: int = 0
    """How often a block was looked for while garbage collection was on: ages are counted in searches."""
    born: dict[int, int] = field(default_factory=dict)
    """The count of searches when a free block came to be, by its address."""


@dataclass(slots=True, eq=False)
class Segment:
    """Memory that was got from the GPU in one piece, or the address space of an expandable segment."""

    start: int
    size: int
    arena: Arena
    unmapped: list[tuple[int, int]] | None = None
    """Start and end of what has addresses and no memory, ascending; None where a segment cannot grow."""
    frames: Any = None
    """Where it was got, while that is recorded."""

    @property
    def expandable(self) -> bool:
        """Whether it is address space with memory in parts."""
        return self.unmapped is not None

    @property
    def page(self) -> int:
        """What an expandable segment grows by."""
        return SMALL_SEGMENT if self.arena.small else 20 << 20
