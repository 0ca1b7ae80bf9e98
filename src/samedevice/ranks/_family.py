"""The processes below one virtual machine: what they inherit, and what they saw, put together.

Must guarantee: the environment is as before when the family is over, its folder is gone, and each statement is told once, with
the ranks that ran into it.
"""

from __future__ import annotations

import json
import os
import pickle
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from samedevice.events import DeviceMemory, Event
from samedevice.ranks._child import note_exits

VARIABLE = "SAMEDEVICE_MACHINE_OF_PARENT"
_PACKAGE = Path(__file__).parents[1]
_BOOTSTRAP = Path(__file__).parent / "bootstrap"


@dataclass(frozen=True, slots=True)
class Member:
    """What one process told."""

    rank: int | None
    pid: int
    status: str
    events: tuple[Event, ...]
    counts: tuple[int, ...]
    memory: dict[str, DeviceMemory]
    gpus: dict[str, int]
    """Position in the machine of each of its devices."""
    operators: int = 0

    @property
    def concerned(self) -> bool:
        """Whether it is a rank or used a GPU: a launcher's own process, which only asks how many there are, is neither."""
        return self.rank is not None or bool(self.events) or any(own.peak_allocated for own in self.memory.values())


@dataclass(slots=True)
class Seen:
    """One distinct statement, with how often and on which ranks it was refused."""

    event: Event
    count: int = 0
    ranks: list[int] = field(default_factory=list)


class Family:
    """What the processes below a machine inherit; `members` is what they told so far."""

    def __init__(self, machine: str, on_mismatch: str, script: str | None, assumed_ranks: int | None = None) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="samedevice-"))
        spec = str(Path(machine).absolute()) if Path(machine).is_file() else machine
        self._told = json.dumps(
            {
                "machine": spec,
                "on_mismatch": on_mismatch,
                "script": script,
                "folder": str(self.folder),
                "package": str(_PACKAGE),
                "assumed_ranks": assumed_ranks,
            }
        )

    def environment(self) -> dict[str, str]:
        """The variables that a child needs, on top of this process's own."""
        path = os.environ.get("PYTHONPATH")
        return {VARIABLE: self._told, "PYTHONPATH": os.pathsep.join([str(_BOOTSTRAP), *([path] if path else [])])}

    @contextmanager
    def adopted(self) -> Iterator[Family]:
        """Children that start inside inherit the machine."""
        before = {name: os.environ.get(name) for name in (VARIABLE, "PYTHONPATH")}
        os.environ.update(self.environment())
        stop = note_exits(str(self.folder))
        try:
            yield self
        finally:
            stop()
            for name, value in before.items():
                if value is None:
                    os.environ.pop(name, None)
                else:
                    os.environ[name] = value

    def members(self) -> list[Member]:
        """What was told so far, ranks in their order, other processes behind."""
        found = []
        for path in self.folder.glob("*.pickle"):
            with suppress(OSError, EOFError, pickle.UnpicklingError), path.open("rb") as file:
                told: dict[str, Any] = pickle.load(file)  # our own processes wrote it, into a folder of this user alone
                if told["status"] == "completed" and path.with_suffix(".failed").exists():
                    told["status"] = "script-error"  # `sys.exit(1)`
                found.append(Member(**{**told, "events": tuple(told["events"]), "counts": tuple(told["counts"])}))
        return sorted(found, key=lambda member: (member.rank is None, member.rank or 0, member.pid))

    def forget(self) -> None:
        """Forget what was told."""
        for path in self.folder.iterdir():
            path.unlink(missing_ok=True)

    def close(self) -> None:
        """The family is over."""
        shutil.rmtree(self.folder, ignore_errors=True)


def together(members: Sequence[Member]) -> list[Seen]:
    """Each distinct statement once, in the order of the ranks that met it."""
    found: dict[Any, Seen] = {}
    for member in members:
        for event, count in zip(member.events, member.counts, strict=True):
            at = event.at
            seen = found.setdefault((event.kind, event.op, at.file, at.line, at.function), Seen(event))
            seen.count += count
            if member.rank is not None and member.rank not in seen.ranks:
                seen.ranks.append(member.rank)
    return list(found.values())


def memory_by_gpu(members: Sequence[Member]) -> dict[str, DeviceMemory]:
    """What the processes held on each GPU of the machine; their peaks added up, which is what they held at most."""
    found: dict[int, DeviceMemory] = {}
    for member in members:
        for device, own in member.memory.items():
            before = found.get(member.gpus[device])
            found[member.gpus[device]] = own if before is None else _sum(before, own)
    return {f"cuda:{index}": found[index] for index in sorted(found)}


def memory_by_rank(members: Sequence[Member]) -> dict[str, DeviceMemory]:
    """What each process held, where it held anything."""
    return {f"{_who(member)} {device}": own for member in members for device, own in member.memory.items() if own.peak_allocated}


def _who(member: Member) -> str:
    return f"process {member.pid}" if member.rank is None else f"rank {member.rank}"


def _sum(one: DeviceMemory, other: DeviceMemory) -> DeviceMemory:
    return DeviceMemory(
        one.allocated + other.allocated,
        one.reserved + other.reserved,
        one.peak_allocated + other.peak_allocated,
        one.peak_reserved + other.peak_reserved,
        one.total,
    )
