"""Turns what the engine refuses into events, each distinct statement once.

Looking for names is slow and happens only when a statement is refused for the first time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Any, Literal, TypeVar

import torch

from samedevice.events import (
    DECISIONS_LIMIT,
    EXPRESSIONS_LIMIT,
    WAYS_LIMIT,
    Event,
    EventKind,
    Place,
    SilentResult,
)
from samedevice.provenance import FrameFilter, Site
from samedevice.provenance.surroundings import (
    identity,
)
from samedevice.runtime.state import (
    MachineState,
    Memory,
    Operator,
    storage_of,
)
from samedevice.runtime.tracking.refused_statement import Bare, Named, event_at, outwards, resolved, way_to

OnMismatch = Literal["record", "raise"]

_READS_LIMIT = 1000
_COMBINATIONS_LIMIT = 64
_Raised = TypeVar("_Raised", bound=Exception)


_EXABYTE = 1 << 60
"""What CUDA's allocator refuses at the door."""


class Recorder:
    """Collects the events of one machine."""

    def __init__(
        self,
        frame_filter: FrameFilter,
        on_mismatch: OnMismatch,
        observer: Callable[[Event], None] | None = None,
    ) -> None:
        self.filter = frame_filter
        self.on_mismatch = on_mismatch
        self.events: list[Event] = []
        self.counts: list[int] = []
        self._observer = observer
        self._index: dict[Any, int] = {}
        self._ways: dict[int, set[tuple[Site, ...]]] = {}
        self._orders: dict[int, list[set[int]]] = {}
        self._assumed: dict[Site, None] = {}
        self._asked: dict[Site, None] = {}

    def start_over(self) -> None:
        """Forget what was seen: the same statement is an event again."""
        self.events = []
        self.counts = []
        self._index = {}
        self._ways = {}
        self._orders = {}
        self._assumed = {}
        self._asked = {}

    def read_assumed(self, frame: FrameType, *, number: bool) -> None:
        """The program reads a value that nobody computed.

        `number` tells floats, as losses are, from flags and indices.
        """
        site = self.filter.site(frame)
        if site is None or len(self._assumed) >= _READS_LIMIT:
            return
        self._assumed[site] = None
        if (
            site not in self._asked
            and not self._asked_by_torch(frame)
            and (number or self.filter.of_user(site[0].co_filename))
        ):
            self._asked[site] = None

    def _asked_by_torch(self, frame: FrameType) -> bool:
        """Whether torch itself wants the value, for a check of its own.

        A script that asks does so by a method of the tensor.
        """
        for each in outwards(frame):
            file = each.f_code.co_filename
            if not file.startswith(_PASSES_ON):
                return self.filter.internal(file)
        return True

    @property
    def asked_values(self) -> list[Place]:
        """Where values that nobody computed were asked for, each line once.

        The script asked, or a library for a number that it shows.

        Flags and indices that a library reads for itself are not among them: a mask's test, the end of a
        generation.
        """
        return _places(self._asked)

    @property
    def assumed_reads(self) -> list[Place]:
        """Where `read_assumed` was told of, in order, each statement once."""
        return _places(self._assumed)

    # -- what the engine reports

    def refused(
        self,
        kind: EventKind,
        op: str,
        message: str,
        named: Named,
        devices: Sequence[torch.device],
        frame: FrameType,
        bare: Bare = (),
        *,
        certain: bool = False,
        error: type[RuntimeError] = RuntimeError,
    ) -> None:
        """An operator got tensors that CUDA refuses to mix.

        Raises `error` with CUDA's text when asked to.

        With `certain` it counts also within a backward that follows other events.
        """
        went_on = self.events and self.on_mismatch != "raise"
        if went_on and not certain and torch._C._current_autograd_node() is not None:
            # backward through a forward operator that was refused: on real hardware it would never run
            return
        event = self._note(kind, op, message, named, devices, frame, bare=bare)
        if self.on_mismatch == "raise" and kind is not EventKind.UNCHECKED:
            raise _as_raised(error(message), event)

    def unmaterialized(
        self,
        op: Operator,
        error: Exception | None,
        message: str,
        named: Named,
        devices: Sequence[torch.device],
        frame: FrameType,
        silent_result: SilentResult | None,
    ) -> None:
        """An operator met a tensor on the meta device; `error` is None where hardware raises nothing, and
        `silent_result` is then what it gives.
        """
        event = self._note(
            EventKind.UNMATERIALIZED, op.name, message, named, devices, frame, silent_result=silent_result
        )
        if self.on_mismatch == "raise" and error is not None:
            raise _as_raised(error, event)

    def meta_copy(self, source: torch.Tensor, target: torch.device, frame: FrameType) -> None:
        """A meta tensor, which has no data, is copied to a real device."""
        message = "Cannot copy out of meta tensor; no data!"
        named = [("self", source, False)]
        event = self._note(
            EventKind.UNMATERIALIZED, "aten._to_copy.default", message, named, [torch.device("meta")], frame
        )
        if self.on_mismatch == "raise":
            raise _as_raised(NotImplementedError(message), event)

    def duplicate_gpu(
        self, op: Operator, message: str, named: Named, devices: Sequence[torch.device], frame: FrameType
    ) -> None:
        """Two ranks of a process group are on one GPU."""
        event = self._note(EventKind.DUPLICATE_GPU, op.name, message, named, devices, frame)
        if self.on_mismatch == "raise":
            raise _as_raised(torch.distributed.DistBackendError(message), event)

    def off_its_gpu(
        self,
        op: Operator,
        error: Exception | None,
        named: Named,
        devices: Sequence[torch.device],
        home: torch.device,
        frame: FrameType,
    ) -> None:
        """A collective got tensors that are not on `home`, the GPU of its group.

        `error` is what c10d raises, None where NCCL waits.
        """
        event = self._note(
            EventKind.COLLECTIVE, op.name, str(error or ""), named, devices, frame, bare=(("group", home),)
        )
        if self.on_mismatch == "raise" and error is not None:
            raise _as_raised(error, event)

    def launch_conflict(self, what: str, message: str, frame: FrameType) -> None:
        """A library was asked for a placement that the launch forbids.

        The library itself refuses it sooner or later.
        """
        asked = next(
            (each for each in outwards(frame) if self.filter.of_user(each.f_code.co_filename)), frame
        )
        self._note(EventKind.LAUNCH_CONFLICT, what, message, [], [], asked)

    def generator(
        self, op: Operator, message: str, own: torch.device, target: torch.device, frame: FrameType
    ) -> None:
        """A random operator got a generator of another device type than the tensor that it fills."""
        event = self._note(
            EventKind.GENERATOR, op.name, message, [], [], frame, bare=(("self", target), ("generator", own))
        )
        if self.on_mismatch == "raise":
            raise _as_raised(RuntimeError(message), event)

    def out_of_memory(
        self, state: MachineState, index: int, requested: int, frame: FrameType
    ) -> torch.OutOfMemoryError:
        """The exception for an allocation that does not fit, recorded as an event."""
        ledger = state.ledger(index)
        for observe in list(state.memory_observers):
            observe(index, requested, ledger.total, ledger.total - ledger.reserved)
        message = (
            "CUDA out of memory. Tried to allocate more than 1EB memory."
            if requested >= _EXABYTE
            else f"CUDA out of memory. Tried to allocate {_size(requested)}. GPU {index} has a total "
            f"capacity of {_size(ledger.total)} of which {_size(ledger.total - ledger.reserved)} is free. Of "
            f"the allocated memory {_size(ledger.allocated)} is allocated by PyTorch, and "
            f"{_size(ledger.reserved - ledger.allocated)} is reserved by PyTorch but unallocated. If "
            "reserved but unallocated memory is large try setting "
            "PYTORCH_ALLOC_CONF=expandable_segments:True to avoid fragmentation.  See documentation for "
            "Memory Management  (https://pytorch.org/docs/stable/notes/cuda.html#environment-variables)"
        )
        memory = {device: own.snapshot() for device, own in state.ledgers().items()}
        event = self._note(EventKind.OUT_OF_MEMORY, "allocate", message, [], [], frame, memory=memory)
        error = torch.OutOfMemoryError(message)
        _as_raised(error, event)
        return error

    # -- events

    def _note(
        self,
        kind: EventKind,
        op: str,
        message: str,
        named: Named,
        devices: Sequence[torch.device],
        frame: FrameType,
        memory: Any = None,
        bare: Bare = (),
        silent_result: SilentResult | None = None,
    ) -> Event:
        site = self.filter.site(frame)
        quick = (kind, op, site)
        index = self._index.get(quick)
        event: Event | None = None
        if (
            index is None or self.on_mismatch == "raise"
        ):  # an error carries its own event, also the second time
            event = event_at(frame, self.filter, kind, op, message, named, devices, bare)
            event = replace(event, memory=memory or {}, silent_result=silent_result)
        if index is None:
            assert event is not None
            # One statement may be reached through several instructions (a loop body that was unrolled, say).
            same = (kind, op, event.at.file, event.at.line, event.at.function)
            index = self._index.get(same)
            if index is None:
                index = len(self.events)
                self.events.append(event)
                self.counts.append(0)
                self._index[same] = index
                if self._observer is not None:
                    self._observer(event)
            elif self.on_mismatch != "raise":
                self._beside(index, event)
            self._index[quick] = index
        self._meet(index, devices)
        self._count_decisions(index, named)
        self._reach(index, frame)
        self.counts[index] += 1
        return event if event is not None and self.on_mismatch == "raise" else self.events[index]

    def _beside(self, index: int, event: Event) -> None:
        """Keep what another expression of a statement that failed before met."""
        known = self.events[index]
        calls = {known.at.call, *(each.at.call for each in known.also)}
        if event.at.call and event.at.call not in calls and len(known.also) < EXPRESSIONS_LIMIT:
            self.events[index] = replace(known, also=(*known.also, event))

    def _meet(self, index: int, devices: Sequence[torch.device]) -> None:
        """Keep which devices met, where a statement fails with several combinations.

        A fix has to be right for all.
        """
        met = tuple(str(device) for device in devices)
        known = self.events[index]
        if met and met not in known.met and len(known.met) < _COMBINATIONS_LIMIT:
            self.events[index] = replace(known, met=(*known.met, met))

    def _count_decisions(self, index: int, named: Named) -> None:
        """Keep how many decisions put each operand where it was, from the second failure on: one that is
        always the same outlives the statement.
        """
        orders = self._orders.setdefault(index, [set() for _ in named])
        if len(orders) != len(named) or all(len(each) == DECISIONS_LIMIT for each in orders):
            return
        for seen, (_, tensor, _) in zip(orders, named, strict=True):
            if len(seen) < DECISIONS_LIMIT:
                seen.add(_decided(tensor))
        counts = tuple(map(len, orders))
        if self.counts[index] and counts != self.events[index].decisions:
            self.events[index] = replace(self.events[index], decisions=counts)

    def _reach(self, index: int, frame: FrameType) -> None:
        """Keep by which statements of the user a statement was reached: one of them may be marked as known,
        and the others not.
        """
        ways = self._ways.setdefault(index, set())
        way = way_to(frame, self.filter)
        if way in ways or len(ways) >= WAYS_LIMIT:
            return
        ways.add(way)
        known = self.events[index]
        if (places := resolved(way)) not in known.reached:
            self.events[index] = replace(known, reached=(*known.reached, places))


_TORCH = str(Path(torch.__file__).parent) + "/"
_PASSES_ON = (
    str(Path(__file__).parents[2]) + "/",
    *(_TORCH + name for name in ("_tensor.py", "_tensor_str.py")),
)
"""Files whose frames ask on behalf of those who called them."""


def _places(sites: Iterable[Site]) -> list[Place]:
    return list({(place.file, place.line): place for place in resolved(sites)}.values())


def _as_raised(error: _Raised, event: Event) -> _Raised:
    error.samedevice_event = event  # type: ignore[attr-defined]  # how callers find the event again
    return error


def _decided(tensor: torch.Tensor) -> int:
    """The decision that put a tensor where it is, as a number; of memory without one, its address."""
    try:
        record = storage_of(tensor)._sd
    except NotImplementedError:
        record = None
    decision = record.decision if type(record) is Memory else None
    return -identity(tensor) if decision is None else decision.order


def _size(nbytes: int) -> str:
    if nbytes >= 1 << 30:
        return f"{nbytes / (1 << 30):.2f} GiB"
    if nbytes >= 1 << 20:
        return f"{nbytes / (1 << 20):.2f} MiB"
    return f"{nbytes / (1 << 10):.2f} KiB"
