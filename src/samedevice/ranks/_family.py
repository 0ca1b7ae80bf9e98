"""The processes below one virtual machine: what they inherit, and what they saw, put together.

Must guarantee: the environment is as before when the family is over, its folder is gone, and each statement
is told once, with the ranks that ran into it.
"""

from __future__ import annotations

import json
import math
import os
import pickle
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from samedevice.events import DeviceMemory, Event, EventKind, Place
from samedevice.messages import Bytes, Phrase
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
    asked: Sequence[Place] = ()
    """Where it asked for values that nobody computed."""
    began: float = 0.0
    """Seconds since the epoch; by default it was there all the time."""
    ended: float = math.inf
    """When it told this."""
    trace: str | None = None
    """The traceback of the error that ended it, where no event is of it."""

    @property
    def concerned(self) -> bool:
        """Whether it is a rank or used a GPU.

        A launcher's own process, which only asks how many there are, is neither.
        """
        return (
            self.rank is not None
            or bool(self.events)
            or any(own.peak_allocated for own in self.memory.values())
        )

    @property
    def name(self) -> str:
        """As a report calls it."""
        return f"process {self.pid}" if self.rank is None else f"rank {self.rank}"


@dataclass(slots=True)
class Seen:
    """One distinct statement, with how often and on which ranks it was refused."""

    event: Event
    count: int = 0
    ranks: list[int] = field(default_factory=list)


class Family:
    """What the processes below a machine inherit; `members` is what they told so far."""

    def __init__(
        self, machine: str, on_mismatch: str, script: str | None, assumed_ranks: int | None = None
    ) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="samedevice-"))
        spec = str(Path(machine).absolute()) if Path(machine).is_file() else machine
        self._inherited = json.dumps(
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
        return {
            VARIABLE: self._inherited,
            "PYTHONPATH": os.pathsep.join([str(_BOOTSTRAP), *([path] if path else [])]),
        }

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
                report: dict[str, Any] = pickle.load(
                    file
                )  # our own processes wrote it, into a folder of this user alone
                if report["status"] == "completed" and path.with_suffix(".failed").exists():
                    report["status"] = "script-error"  # `sys.exit(1)`
                found.append(
                    Member(**{**report, "events": tuple(report["events"]), "counts": tuple(report["counts"])})
                )
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
            seen.event = replace(
                seen.event,
                met=tuple(dict.fromkeys((*seen.event.met, *event.met))),
                reached=tuple(dict.fromkeys((*seen.event.reached, *event.reached))),
            )
            if member.rank is not None and member.rank not in seen.ranks:
                seen.ranks.append(member.rank)
    return list(found.values())


def first_trace(members: Sequence[Member]) -> str | None:
    """The traceback of the process that failed first: others often fail for want of it."""
    failed = [member for member in members if member.status == "script-error"]
    first = min(failed, key=lambda member: member.ended, default=None)
    return None if first is None else first.trace


def memory_by_gpu(members: Sequence[Member]) -> dict[str, DeviceMemory]:
    """What the processes held on each GPU of the machine.

    The peaks of those that were there at the same time, added up.
    """
    used = _used(members)
    total = {index: own.total for member in members for index, own in _held(member).items()}
    nothing = DeviceMemory(0, 0, 0, 0, 0)
    return {
        f"cuda:{index}": replace(_added(used.get(index, {}).values()) or nothing, total=total[index])
        for index in sorted(total)
    }


def memory_by_rank(members: Sequence[Member]) -> dict[str, DeviceMemory]:
    """What each process held, where it held anything, and the sum where several held something of one GPU."""
    rows = {
        f"{member.name} {device}": own
        for member in members
        for device, own in member.memory.items()
        if own.peak_allocated
    }
    for index, users in sorted(_used(members).items()):
        if len(users) > 1 and (whole := _added(users.values())) is not None:
            who = " + ".join(users) if len(users) <= _FEW else f"{len(users)} processes"
            rows[f"GPU {index}: {who}"] = whole
    return rows


def crowded(members: Sequence[Member]) -> list[Event]:
    """An event for each GPU of which the processes that shared it needed more than it has."""
    events = []
    for index, users in sorted(_used(members).items()):
        whole = _added(users.values())
        if len(users) > 1 and whole is not None and whole.peak_allocated > whole.total:
            peaks = replace(whole, allocated=whole.peak_allocated, reserved=whole.peak_reserved)
            notes = tuple(
                Phrase("note.held", process=name, amount=Bytes(own.peak_allocated))
                for name, own in users.items()
            )
            nowhere = Place("", 0, "")
            events.append(
                Event(
                    EventKind.SHARED_GPU,
                    "",
                    "",
                    nowhere,
                    None,
                    None,
                    (),
                    memory={f"cuda:{index}": peaks},
                    notes=notes,
                )
            )
    return events


_FEW = 4
"""Processes that a row of the table names one by one."""


def _held(member: Member) -> dict[int, DeviceMemory]:
    """What a process held, by the machine's own numbers of GPUs."""
    return {member.gpus[device]: own for device, own in member.memory.items()}


def _used(members: Sequence[Member]) -> dict[int, dict[str, DeviceMemory]]:
    """For each GPU of the machine the processes that together held most of it.

    They held it at the same time.
    """
    found: dict[int, dict[str, DeviceMemory]] = {}
    for last in members:
        there = [member for member in members if member.began <= last.began <= member.ended]
        for index in _held(last):
            users = {
                member.name: own
                for member in there
                if (own := _held(member).get(index)) is not None and own.peak_allocated
            }
            if _peak(users) > _peak(found.get(index, {})):
                found[index] = users
    return found


def _peak(users: Mapping[str, DeviceMemory]) -> int:
    return sum(own.peak_allocated for own in users.values())


def _added(held: Iterable[DeviceMemory]) -> DeviceMemory | None:
    """The sum over processes of one GPU; None for no process."""
    parts = list(held)
    if not parts:
        return None
    return DeviceMemory(
        sum(own.allocated for own in parts),
        sum(own.reserved for own in parts),
        sum(own.peak_allocated for own in parts),
        sum(own.peak_reserved for own in parts),
        parts[0].total,
    )
