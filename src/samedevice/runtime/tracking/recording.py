"""Decisions of tensors on the real machine: the record that a virtual one keeps, beside torch's own kernels.

Note [Recording]
A dispatch mode sees each operator as autograd hands it to the devices, and changes none. What an operator
makes gets the record that a virtual machine would give it: where it was made and moved, and the decision that
put it there (Note [Decisions]). An operator that fails over devices leaves the same event on its exception
that a virtual machine raises. Memory that no operator made (loaded by C++, made by a kernel of an extension)
has no record until it is used, and its decision is not told.

Must guarantee: no operator runs twice or on other arguments; no tensor, frame or variable is kept alive;
whatever goes wrong beside an operator costs the record and nothing else.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from types import FrameType
from typing import Any, Self

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from samedevice.events import Event, EventKind
from samedevice.provenance import FrameFilter, Site
from samedevice.runtime.state import (
    CPU,
    HANDED_OUT_BY,
    KEPT_BY_RESULTS,
    Decision,
    Form,
    Memory,
    Operator,
    caller,
    operator,
    raw_device,
    storage_of,
    tensors_in,
)
from samedevice.runtime.tracking.movers import decision_to_move
from samedevice.runtime.tracking.refused_statement import Bare, event_at

_COPIES = frozenset(("_to_copy", "copy", "_pin_memory"))
"""Operators whose result is their tensor in another type or place: made where that was."""
_makers: dict[Any, Operator | None] = {}
"""The operators of calls that were seen; None for one whose result is never new memory."""
_entered = [0]
"""Recordings that run, in all threads."""
_lock = threading.Lock()


class Recording:
    """Keeps the decisions of what the program makes and moves, in this thread and in those that it starts."""

    def __init__(self, frames: FrameFilter, speaks_of_devices: Callable[[str], bool]) -> None:
        """`frames` tells which code a person wrote, `speaks_of_devices` which texts of errors are ours."""
        self._frames = frames
        self._speaks = speaks_of_devices
        self._entered: list[ExitStack] = []

    @staticmethod
    def runs() -> bool:
        """Whether decisions are being kept in this process."""
        return bool(_entered[0])

    @staticmethod
    def event(
        frame: FrameType, frames: FrameFilter, known: Event, tensors: Sequence[tuple[str, torch.Tensor]]
    ) -> Event:
        """What is recorded of an exception that no operator raised, but a check before one.

        `known` is what its frames tell, `tensors` are its operands that were found there.
        """
        named = [(name, tensor, False) for name, tensor in tensors]
        devices = [raw_device(tensor) for _, tensor in tensors]
        seen = event_at(frame, frames, known.kind, known.op, known.message, named, devices)
        recorded = {each.name: each for each in seen.operands}
        return replace(
            seen,
            at=known.at,
            user_at=known.user_at,
            stack=known.stack,
            operands=tuple(recorded.get(each.name, each) for each in known.operands),
        )

    def __enter__(self) -> Self:
        entered = ExitStack()
        entered.enter_context(_storages_have_records())
        entered.enter_context(self._in_new_threads())
        entered.enter_context(_noting_loads(self._frames))
        entered.enter_context(self._mode())
        self._entered.append(entered)
        return self

    def __exit__(self, *error: object) -> None:
        self._entered.pop().close()

    def _mode(self) -> _Mode:
        return _Mode(self._frames, self._speaks)

    @contextmanager
    def _in_new_threads(self) -> Iterator[None]:
        """Threads that are started inside the block record, too."""
        thread_class: Any = threading.Thread
        start = thread_class.start

        def recorded(thread: threading.Thread) -> None:
            run = thread.run

            def within() -> None:
                with self._mode():
                    run()

            thread.run = within  # type: ignore[method-assign]
            start(thread)

        thread_class.start = recorded
        try:
            yield
        finally:
            if thread_class.start is recorded:
                thread_class.start = start


class _Mode(TorchDispatchMode):  # type: ignore[no-untyped-call] # of torch
    """The recording of one thread."""

    def __init__(self, frames: FrameFilter, speaks_of_devices: Callable[[str], bool]) -> None:
        super().__init__()  # type: ignore[no-untyped-call] # of torch
        self._frames = frames
        self._speaks = speaks_of_devices

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Asked by torch, which would wrap each call of this mode; compiled code runs as written here."""
        return False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run an operator and note what it made."""
        kwargs = kwargs or {}
        try:
            result = func(*args, **kwargs)
        except Exception as error:
            with suppress(Exception):  # what fails here must not hide the error of the program
                if self._speaks(str(error)[:10_000]) and not hasattr(error, "samedevice_event"):
                    self._note_refusal(error, func, args, kwargs, caller())
            raise
        try:
            op = _makers[func] if func in _makers else _maker(func)
            if op is not None:
                self._note_made(op, args, kwargs, result)
        except Exception:  # a kind of tensor without memory of its own
            return result
        return result

    def _note_made(self, op: Operator, args: Any, kwargs: Any, result: Any) -> None:
        """Give the memory that an operator made its record."""
        if result.__class__ is torch.Tensor:
            new = [storage_of(result)]
        else:
            new = [storage_of(tensor) for tensor in tensors_in(result)]
        new = [storage for storage in new if storage._sd is None]
        if not new:
            return
        frame = sys._getframe(1)
        site = self._frames.site(frame)
        device = new[0].device
        operands: list[torch.Tensor] = []
        for value in (*args, *kwargs.values()) if kwargs else args:
            if isinstance(value, torch.Tensor):
                operands.append(value)
            elif isinstance(value, (list, tuple)):
                operands += tensors_in(value)
        beside = [tensor for tensor in operands if raw_device(tensor) == device]
        made, moved, decision = site, None, None
        source = _record_of(operands[0]) if operands and op.short in _COPIES else None
        if source is not None:
            made, moved = source.made or site, source.moved
        if beside:
            decision = _inherited(beside)
        elif operands and op.short in _COPIES:
            earlier = source.decision if source is not None else _unseen(raw_device(operands[0]), site)
            decision = decision_to_move(frame, self._frames, device, site, earlier)
            moved = site
        if decision is None:
            outside = beside and op.short not in HANDED_OUT_BY
            decision = _unseen(device, site) if outside else Decision("created", device, site)
        for storage in new:
            record = Memory(device, virtual=False, made=made, moved=moved)
            record.decision = decision
            storage._sd = record

    def _note_refusal(self, error: Exception, func: Any, args: Any, kwargs: Any, frame: FrameType) -> None:
        """Leave the event of an operator that fails over devices on its exception."""
        op = operator(func)
        named = op.named(args, kwargs)
        devices = [raw_device(tensor) for _, tensor, _ in named]
        generator = next(
            (each for each in (*args, *kwargs.values()) if isinstance(each, torch._C.Generator)), None
        )
        target = torch.device(kwargs.get("device") or (devices or [CPU])[0])
        bare: Bare = ()
        if generator is not None and generator.device.type != target.type:
            kind, named, devices = EventKind.GENERATOR, [], []
            bare = (("self", target), ("generator", generator.device))
        elif any(device.type == "meta" for device in devices):
            kind = EventKind.UNMATERIALIZED
        elif len(set(devices)) > 1:
            kind = EventKind.MISMATCH
        else:
            return
        error.samedevice_event = event_at(  # type: ignore[attr-defined] # how callers find it again
            frame, self._frames, kind, op.name, str(error), named, devices, bare
        )


def _maker(func: Any) -> Operator | None:
    op = operator(func)
    makes = op.form in (Form.FRESH, Form.MIXED) or op.short in HANDED_OUT_BY
    _makers[func] = op if makes else None
    return _makers[func]


def _record_of(tensor: torch.Tensor) -> Memory | None:
    try:
        record = storage_of(tensor)._sd
    except (NotImplementedError, RuntimeError):
        return None
    return record if record.__class__ is Memory else None


def _inherited(tensors: Sequence[torch.Tensor]) -> Decision | None:
    """The decision of a weight that was placed, or else of the first operand: Note [Decisions]."""
    first = _record_of(tensors[0])
    decision = None if first is None else first.decision
    for tensor in tensors[1:]:
        if decision is None or decision.how in KEPT_BY_RESULTS:
            break
        own = None if (record := _record_of(tensor)) is None else record.decision
        if own is not None and (
            own.how == "placed" or (own.how == "moved" and isinstance(tensor, torch.nn.Parameter))
        ):
            decision = own
    return decision


def _unseen(device: torch.device, site: Site | None) -> Decision | None:
    """Memory that no operator was seen to make: on the host it came from outside."""
    return Decision("outside", CPU, site) if device.type == "cpu" else None


@contextmanager
def _storages_have_records() -> Iterator[None]:
    """A storage that nobody has recorded says so when it is asked."""
    kind: Any = torch.UntypedStorage
    with _lock:
        _entered[0] += 1
        if "_sd" not in vars(kind):
            kind._sd = None
    try:
        yield
    finally:
        with _lock:
            _entered[0] -= 1
            if not _entered[0] and vars(kind).get("_sd", 0) is None:
                del kind._sd


@contextmanager
def _noting_loads(frames: FrameFilter) -> Iterator[None]:
    """What `torch.load` gives was decided by that call."""
    load = torch.load

    def noted(*args: Any, **kwargs: Any) -> Any:
        found = load(*args, **kwargs)
        with suppress(Exception):
            site = frames.site(sys._getframe(1))
            for tensor in _held_in(found):
                storage = storage_of(tensor)
                record = storage._sd = Memory(raw_device(tensor), virtual=False, made=site)
                record.decision = Decision("loaded", record.device, site)
        return found

    torch.load = noted
    try:
        yield
    finally:
        if torch.load is noted:
            torch.load = load


_DEEPEST = 8


def _held_in(value: Any, depth: int = 0) -> Iterator[torch.Tensor]:
    """The tensors of what was loaded: in containers, and those of modules."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, torch.nn.Module):
        yield from (*value.parameters(), *value.buffers())
    elif depth < _DEEPEST and isinstance(value, (dict, list, tuple)):
        for part in value.values() if isinstance(value, dict) else value:
            yield from _held_in(part, depth + 1)
