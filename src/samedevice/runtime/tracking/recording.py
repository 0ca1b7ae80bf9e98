"""Decisions of tensors on the real machine: the record that a virtual one keeps, beside torch's own kernels.

Note [Recording]
A dispatch mode sees each operator as autograd hands it to the devices, and changes none. What an operator
makes gets the record that a virtual machine would give it: where it was made and moved, and the decision that
put it there (Note [Decisions]). An operator that fails over devices leaves the same event on its exception
that a virtual machine raises. What composite operators are made of is seen also in inference mode, where
autograd does not take them apart. Memory that was there before has a record without a decision; what no
operator made (an extension's kernel, a library's loader in C++) came from outside where it is on the host,
and is not told elsewhere. While a virtual machine is entered, the mode lets everything pass.

Must guarantee: no operator runs twice or on other arguments; no tensor, frame or variable is kept alive;
whatever goes wrong beside an operator costs the record and nothing else; recordings may end in any order.
"""

from __future__ import annotations

import functools
import gc
import os
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from dataclasses import replace
from types import FrameType
from typing import Any, Self

import torch
from torch.utils import _python_dispatch
from torch.utils._python_dispatch import TorchDispatchMode

from samedevice.events import Event, EventKind
from samedevice.provenance import FrameFilter, Site, resolve
from samedevice.runtime.state import (
    CPU,
    KEPT_BY_RESULTS,
    META,
    Decision,
    Form,
    Memory,
    Operator,
    caller,
    entered,
    operator,
    raw_device,
    storage_of,
    tensors_in,
)
from samedevice.runtime.tracking.movers import decision_to_move
from samedevice.runtime.tracking.refused_statement import Bare, event_at

_COPIES = frozenset(("_to_copy", "copy", "_pin_memory"))
"""Operators whose result is their tensor in another type or place: made where that was."""
_WRAPS = frozenset(("lift", "lift_fresh"))
"""Operators by which torch hands out memory that it made below the dispatcher: `torch.tensor`."""
_EVENTS_OF_A_STATEMENT = 3
"""So many failures of one statement get an event of their own, for programs that catch them."""


_UNFILLED = (
    "samedevice: {op} computed nothing here. A tensor that it got is on meta: a weight that nobody loaded, "
    "or whose offload hook did not run. Its result is memory that nobody filled, and no error is raised. "
    "`samedevice explain SD102` tells more."
)


class Recording:
    """Keeps the decisions of what the program makes and moves, in this thread and in those that it starts."""

    def __init__(
        self,
        frames: FrameFilter,
        speaks_of_devices: Callable[[str], bool],
        around: Callable[[], AbstractContextManager[object]] = nullcontext,
    ) -> None:
        """`frames` tells which code a person wrote, `speaks_of_devices` which texts of errors are ours.

        `around` is there as long as anything of the process records.
        """
        self._frames = frames
        self._speaks = speaks_of_devices
        self._around = around
        self._entered: list[_Mode] = []

    @staticmethod
    def runs() -> bool:
        """Whether decisions are being kept in this thread."""
        return any(isinstance(each, _Mode) and each.on for each in _stack())

    @staticmethod
    def failed_last() -> tuple[str, Event | None]:
        """The text and the event of the operator that failed last: TorchScript loses both on their way."""
        return _failed_last[0]

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
        _surroundings.enter(self._frames, self._around)
        mode = _Mode(self._frames, self._speaks)
        self._entered.append(mode)
        mode.begin()
        return self

    def __exit__(self, *error: object) -> None:
        self._entered.pop().end()
        _surroundings.leave()


class _Mode(TorchDispatchMode):  # type: ignore[no-untyped-call] # of torch
    """The recording of one thread."""

    supports_higher_order_operators = True

    def __init__(self, frames: FrameFilter, speaks_of_devices: Callable[[str], bool]) -> None:
        super().__init__()  # type: ignore[no-untyped-call] # of torch
        self._frames = frames
        self._speaks = speaks_of_devices
        self._process = _process[0]
        self._failed: dict[Any, list[Event]] = {}
        self._unfilled: set[Any] = set()
        """Statements that were told of."""
        self._over = False

    @property
    def on(self) -> bool:
        """Whether it still records: not after its end, nor in a fork."""
        return not self._over and self._process is _process[0]

    def begin(self) -> None:
        """See the operators of this thread."""
        _python_dispatch._push_mode(self)

    def end(self) -> None:
        """See no more, wherever in the stack of this thread's modes it is, or in another thread's."""
        self._over = True
        if not any(each is self for each in _stack()):
            return
        above = []
        while (top := _python_dispatch._pop_mode()) is not self:
            above.append(top)
        for each in reversed(above):
            _python_dispatch._push_mode(each)

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Asked by torch, which would wrap each call of this mode; compiled code runs as written here."""
        return False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run an operator and note what it made."""
        kwargs = kwargs or {}
        if self._over or self._process is not _process[0] or entered():
            return func(*args, **kwargs)
        makes, op = _known[func] if func in _known else _learnt(func)
        if op is not None and op.composite and torch.is_inference_mode_enabled():
            _python_dispatch._push_mode(self)
            try:
                result = func.decompose(*args, **kwargs)
            finally:
                _python_dispatch._pop_mode()
            if result is not NotImplemented:
                return result
        try:
            result = func(*args, **kwargs)
        except Exception as error:
            with suppress(Exception):  # what fails here must not hide the error of the program
                text = str(error)[:10_000]
                if self._speaks(text) and not hasattr(error, "samedevice_event"):
                    self._note_refusal(error, func, args, kwargs, caller())
                _failed_last[0] = f"{type(error).__name__}: {text}", getattr(error, "samedevice_event", None)
            raise
        if makes:
            try:
                self._note_made(op, args, kwargs, result)
            except Warning:
                raise  # of a program that makes errors of them
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
        site, device = self._frames.site(frame), new[0].device
        operands: list[torch.Tensor] = []
        for value in (*args, *kwargs.values()) if kwargs else args:
            if isinstance(value, torch.Tensor):
                operands.append(value)
            elif isinstance(value, (list, tuple)):
                operands += tensors_in(value)
        if op.short not in _WRAPS and any(storage_of(each)._sd is None for each in operands):
            given = {storage_of(each)._cdata for each in operands}
            new = [storage for storage in new if storage._cdata not in given]  # not made here
        beside = [tensor for tensor in operands if raw_device(tensor) == device]
        if 0 < len(beside) < len(operands) and device.type != "meta":
            self._warn_of_unfilled(op, operands, frame)
        made, moved, decision = site, None, None
        source = _record_of(operands[0]) if operands and op.short in _COPIES else None
        if source is not None:
            made, moved = source.made or site, source.moved
        if op.short in _WRAPS or not operands:
            decision = Decision("created", device, site)
        elif beside:
            decision = _inherited(beside, site)
        elif op.short in _COPIES:
            earlier = source.decision if source is not None else _unseen(raw_device(operands[0]), site)
            decision = decision_to_move(frame, self._frames, device, site, earlier)
            moved = site
        else:
            decision = Decision("created", device, site)
        for storage in new:
            storage._sd = _recorded(device, made, moved, decision)

    def _warn_of_unfilled(self, op: Operator, operands: Sequence[torch.Tensor], frame: FrameType) -> None:
        """Tell once where a result is memory that nobody filled, since an operand is on meta.

        See Note [Meta beside data].
        """
        if all(raw_device(tensor).type != "meta" for tensor in operands):
            return
        place = resolve(self._frames.site(frame))
        if place is None or (place, op.name) in self._unfilled:
            return
        self._unfilled.add((place, op.name))
        warnings.warn_explicit(_UNFILLED.format(op=op.short), RuntimeWarning, place.file, place.line)

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
        before = self._failed.setdefault((self._frames.site(frame), op.name, str(error)), [])
        if len(before) < _EVENTS_OF_A_STATEMENT:
            before.append(event_at(frame, self._frames, kind, op.name, str(error), named, devices, bare))
        error.samedevice_event = before[-1]  # type: ignore[attr-defined] # how callers find it again


def _stack() -> Sequence[TorchDispatchMode]:
    return _python_dispatch._get_current_dispatch_mode_stack()


_known: dict[Any, tuple[bool, Any]] = {}
"""Whether results of a callable may be new memory, and its operator; of those that were called."""


def _learnt(func: Any) -> tuple[bool, Any]:
    if not isinstance(func, torch._ops.OpOverload):  # of higher order: its parts are operators
        _known[func] = False, None
    else:
        op = operator(func)
        _known[func] = op.form in (Form.FRESH, Form.MIXED) or op.short in _WRAPS, op
    return _known[func]


def _record_of(tensor: torch.Tensor) -> Memory | None:
    try:
        record = storage_of(tensor)._sd
    except (NotImplementedError, RuntimeError):
        return None
    return record if record.__class__ is Memory else None


def _recorded(
    device: torch.device, made: Site | None, moved: Site | None, decision: Decision | None
) -> Memory:
    record = Memory(device, virtual=False, made=made, moved=moved)
    record.decision = decision
    return record


def _inherited(tensors: Sequence[torch.Tensor], site: Site | None) -> Decision | None:
    """The decision of a weight that was placed, or else of the first operand: Note [Decisions]."""
    first = _record_of(tensors[0])
    if first is None:
        return _unseen(raw_device(tensors[0]), site)
    decision = first.decision
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


# -- what is there once, however many record


class _Surroundings:
    """What all recordings of the process need: there from the first that begins to the last that ends."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._count = 0
        self._undo = ExitStack()

    def enter(self, frames: FrameFilter, around: Callable[[], AbstractContextManager[object]]) -> None:
        """One recording more."""
        with self._lock:
            self._count += 1
            if self._count > 1:
                return
            for each in (_storages_have_records(), _in_new_threads(), _noting_loads(frames), around()):
                self._undo.enter_context(each)

    def leave(self) -> None:
        """One less."""
        with self._lock:
            self._count -= 1
            if not self._count:
                self._undo.close()


_surroundings = _Surroundings()
_failed_last: list[tuple[str, Event | None]] = [("", None)]
_process = [object()]
"""Another one in each fork: what a parent records is none of its."""
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=lambda: _process.__setitem__(0, object()))


@contextmanager
def _storages_have_records() -> Iterator[None]:
    """A storage says that nobody has recorded it; what is there has a record without a decision."""
    kind: Any = torch.UntypedStorage
    own = "_sd" not in vars(kind)
    if own:
        kind._sd = None
    for each in gc.get_objects():
        if issubclass(type(each), torch.Tensor):
            with suppress(Exception):
                storage = storage_of(each)
                if storage._sd is None and storage.device != META:
                    storage._sd = _recorded(storage.device, None, None, None)
    try:
        yield
    finally:
        if own and vars(kind).get("_sd", 0) is None:
            del kind._sd


@contextmanager
def _in_new_threads() -> Iterator[None]:
    """What is recorded in a thread is recorded in those that it starts."""
    thread_class: Any = threading.Thread
    start = thread_class.start

    def recorded(thread: threading.Thread) -> None:
        own = next((each for each in _stack() if isinstance(each, _Mode) and each.on), None)
        run: Any = thread.run
        if own is None:
            start(thread)
            return

        def within() -> None:
            vars(thread).pop("run", None)
            mode = _Mode(own._frames, own._speaks)
            mode.begin()
            try:
                run()
            finally:
                mode.end()

        thread.run = within  # type: ignore[method-assign]
        start(thread)

    thread_class.start = recorded
    try:
        yield
    finally:
        if thread_class.start is recorded:
            thread_class.start = start


@contextmanager
def _noting_loads(frames: FrameFilter) -> Iterator[None]:
    """What `torch.load` gives was decided by that call."""
    load = torch.load

    @functools.wraps(load)
    def noted(*args: Any, **kwargs: Any) -> Any:
        found = load(*args, **kwargs)
        with suppress(Exception):
            site = frames.site(sys._getframe(1))
            for tensor in _held_in(found):
                storage = storage_of(tensor)
                decision = Decision("loaded", storage.device, site)
                storage._sd = _recorded(storage.device, site, None, decision)
        return found

    torch.load = noted
    try:
        yield
    finally:
        if torch.load is noted:
            torch.load = load


_DEEPEST = 8
_MOST_LOADED = 100_000
"""Parts of a container that are looked at."""


def _held_in(value: Any, depth: int = 0) -> Iterator[torch.Tensor]:
    """The tensors of what was loaded: in containers, and those of modules."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, torch.nn.Module):
        yield from (*value.parameters(), *value.buffers())
    elif depth < _DEEPEST and isinstance(value, (dict, list, tuple)) and len(value) < _MOST_LOADED:
        for part in dict.values(value) if isinstance(value, dict) else value:
            yield from _held_in(part, depth + 1)
