"""What `torch.cuda.memory._record_memory_history` asks to be recorded of the caching allocator.

Frames are Python's, innermost first, without those of this package, which a GPU would not have. With stacks
`all` the operator that allocated comes first, by the name of C++'s function of it; of the functions that C++
calls below it nothing is known. Entries of
the trace have frames from context `alloc` on, frees have their own with context `all` and those of their
allocation otherwise, as in torch.
"""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from samedevice.runtime.state.arenas import Arena, PoolId

_OWN = str(Path(__file__).parents[2]) + "/"
_COMMAND = f"{_OWN}cli/"
"""Whose frames are around those of a script, with those that call the command."""
_LEVELS = {None: 0, "state": 1, "alloc": 2, "all": 3}
_STATE, _ALLOC, _ALL = 1, 2, 3

Stack = tuple[tuple[CodeType | str, int], ...]
"""Code and line, innermost first; of an operator its name and 0."""


@dataclass(frozen=True, slots=True)
class TraceEntry:
    """One thing that the allocator did."""

    action: str
    address: int
    """For `oom`: the free bytes of the GPU."""
    size: int
    stream: int
    pool: PoolId
    time_us: int
    stack: Stack | None
    metadata: str


class History:
    """The record of one GPU."""

    __slots__ = ("_level", "_operators", "_skipped", "entries", "index", "metadata", "on", "stacks")

    def __init__(self, index: int) -> None:
        self.index = index
        self.on = False
        self.metadata = ""
        """What a program says of its allocations from now on."""
        self.entries: deque[TraceEntry] = deque()
        self.stacks: dict[int, Stack] = {}
        """Where each block in use was allocated, by its address."""
        self._level = 0
        self._operators = False
        self._skipped: frozenset[str] = frozenset()

    def record(
        self,
        enabled: str | None,
        context: str | None = None,
        most: int = sys.maxsize,
        skipped: Collection[str] = (),
        *,
        operators: bool = False,
        clear: bool = False,
    ) -> None:
        """Begin, go on in another way, or end with None, which forgets the trace."""
        self.on = enabled is not None
        self._level = _LEVELS[context] if self.on else 0
        self._operators = operators
        self._skipped = frozenset(skipped)
        kept = () if clear or not self.on else self.entries
        self.entries = deque(kept, maxlen=most if enabled == "all" else 1)

    def allocated(self, address: int, size: int, arena: Arena) -> None:
        """A block came into use."""
        if self.on:
            stack = self._stack() if self._level >= _STATE else None
            if stack is not None:
                self.stacks[address] = stack
            self._note("alloc", address, size, arena, stack)

    def freed(self, address: int, size: int, arena: Arena) -> None:
        """A program gave a block back."""
        if self.on:
            self._note("free_requested", address, size, arena, self._of_free(address))

    def completed(self, address: int, size: int, arena: Arena) -> None:
        """A block is free again."""
        if self.on:
            self._note("free_completed", address, size, arena, self._of_free(address))
        if self.stacks:
            self.stacks.pop(address, None)

    def segment(
        self, action: str, address: int, size: int, arena: Arena, stack: Stack | None = None
    ) -> Stack | None:
        """A segment came, went, grew or shrank; returns where."""
        if not self.on:
            return None
        wanted = _STATE if action in ("segment_alloc", "segment_map") else _ALL
        own = self._stack() if self._level >= wanted else None
        self._note(action, address, size, arena, own or stack)
        return own

    def out_of_memory(self, free: int, size: int, arena: Arena) -> None:
        """An allocation failed."""
        if self.on:
            self._note("oom", free, size, arena, self._stack() if self._level >= _STATE else None)

    def snapshot_taken(self, active: int, arena: Arena) -> None:
        """Somebody asked for a snapshot."""
        if self.on:
            self._note("snapshot", 0, active, arena, None)

    def _of_free(self, address: int) -> Stack | None:
        return self._stack() if self._level >= _ALL else self.stacks.get(address)

    def _note(self, action: str, address: int, size: int, arena: Arena, stack: Stack | None) -> None:
        if action in self._skipped:
            return
        shown = stack if self._level >= _ALLOC else None
        now = time.time_ns() // 1000
        self.entries.append(
            TraceEntry(action, address, size, arena.stream, arena.pool.id, now, shown, self.metadata)
        )

    def _stack(self) -> Stack:
        found: list[tuple[CodeType | str, int]] = []
        dispatched: FrameType | None = None
        frame: FrameType | None = sys._getframe(2)
        while frame is not None:
            code = frame.f_code
            if not code.co_filename.startswith(_OWN):
                found.append((code, frame.f_lineno))
            elif code.co_filename.startswith(_COMMAND):
                break
            elif not found and code.co_name == _DISPATCH:
                dispatched = frame
            frame = frame.f_back
        if self._operators and dispatched is not None:
            found.insert(0, (_name_in_cpp(dispatched.f_locals["func"]), 0))
        return tuple(found)


_DISPATCH = "__torch_dispatch__"


def _name_in_cpp(operator: Any) -> str:
    """C++'s function of an operator; torch makes it of the name and the overload."""
    namespace, _, name = operator._schema.name.partition("::")
    overload = operator._schema.overload_name
    joined = f"{name}_{overload}" if overload else name
    return f"at::_ops::{joined}::call" if namespace == "aten" else f"{namespace}::{joined}"


def frames_of(stack: Stack | None) -> list[dict[str, Any]]:
    """Frames as torch gives them; of C++ it knows no line where there are no symbols."""
    return [
        {"name": code, "filename": "??", "line": line}
        if isinstance(code, str)
        else {"name": code.co_name, "filename": code.co_filename, "line": line}
        for code, line in stack or ()
    ]
