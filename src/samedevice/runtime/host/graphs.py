"""CUDA graphs: what a capture saw is run again at each replay.

Must guarantee: a replay computes from what its inputs hold then and leaves its results in the very tensors of
the capture; memory that was there before the capture is as it was, and generators are where they were, since
CUDA runs nothing while it captures.

Note [Memory of a graph]
A step of a graph names memory that was made during the capture by a number, and other memory by the tensor
itself. A replay runs the steps on new memory and hands the bytes over to those tensors of the capture that
somebody still holds. What is allocated during the capture is of the graph's private pool, which keeps its
segments as long as the graph lives; a replay books nothing.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NoReturn
from weakref import WeakKeyDictionary

import torch
import torch.cuda.graphs
from torch.utils._python_dispatch import _disable_current_modes

from samedevice.errors import UnsupportedFeatureError, UsageError
from samedevice.runtime.cuda import (
    HINT,
    capturing,
    current_stream,
    is_capturing,
    ledger_of,
    new_pool,
)
from samedevice.runtime.engine import Engine, Order, Proceed
from samedevice.runtime.host.pool_states import PATCHES as POOL_STATES
from samedevice.runtime.host.pool_states import leave_bytes
from samedevice.runtime.patching import Constant, Patch
from samedevice.runtime.state import (
    Booking,
    DeviceLedger,
    Form,
    Memory,
    Operator,
    Philox,
    all_states,
    as_torch,
    aten,
    carrier,
    current_machine,
    device_of,
    memory_of,
    operator,
    storage_of,
    tensors_in,
    virtual_state,
)
from samedevice.torch_versions.adapter import TORCH

_NOT_PERMITTED = f"CUDA error: operation not permitted when stream is capturing{HINT}"
_INVALIDATED = f"CUDA error: operation failed due to a previous error during capture{HINT}"
_DEFAULT_STREAM = (
    "CUDA graphs must be captured on a non-default stream. (However, after capture, it's ok to replay them "
    "on the default stream.)"
)
_COPIES = (aten._to_copy.default, aten.copy_.default)
_Storage: Any = torch.UntypedStorage  # torch's stub leaves it untyped
_HOLDER = 8
"""Bytes of each of the two numbers that a generator keeps on the GPU while it has graphs: seed and offset."""


@dataclass(frozen=True, slots=True)
class _Made:
    """A tensor over memory that the capture made."""

    number: int
    size: tuple[int, ...]
    stride: tuple[int, ...]
    offset: int
    dtype: torch.dtype


@dataclass(frozen=True, slots=True)
class _Step:
    func: Any
    args: Any
    kwargs: Any
    results: tuple[int | None, ...]
    """Numbers of the memory of the results; None for what was there before."""


class _Capture:
    """What one thread does between `capture_begin` and `capture_end`."""

    def __init__(self, engine: Engine) -> None:
        self._thread = threading.get_ident()
        self._inside = False
        self._written: dict[Memory, tuple[torch.UntypedStorage | None, bool]] = {}
        self.failed = False
        self.steps: list[_Step] = []
        self.made: WeakKeyDictionary[Memory, int] = WeakKeyDictionary()
        self._numbers = itertools.count()
        self._offsets = [(state, state.offset) for state in all_states()]
        self._stop = engine.intercept(Order.CAPTURED, self._see)

    def end(self) -> None:
        """Put back the engine, the generators and what the capture wrote to memory that it did not make."""
        self._stop()
        for state, offset in self._offsets:
            state.offset = offset
        for record, (shadow, assumed) in self._written.items():
            record.shadow, record.assumed = shadow, assumed
        self._written.clear()

    def _see(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], proceed: Proceed) -> Any:
        """An operator that runs while this thread captures."""
        if self._inside or threading.get_ident() != self._thread:
            return proceed(func, args, kwargs)
        op = operator(func)
        tensors = [tensor for value in (*args, *kwargs.values()) for tensor in tensors_in(value)]
        if _waits_for_gpu(op, tensors, args, kwargs):
            self.failed = True
            raise TORCH.accelerator_error(_NOT_PERMITTED)
        given = self._named(args, func), {name: self._named(value, func) for name, value in kwargs.items()}
        self._keep_what_is_written(op, args, kwargs)
        self._inside = True
        try:
            result = proceed(func, args, kwargs)
        finally:
            self._inside = False
        results = list(tensors_in(result))
        if op.form is not Form.VIEW and any(
            device_of(tensor).type == "cuda" for tensor in (*tensors, *results)
        ):
            before = {memory_of(tensor) for tensor in tensors}
            self.steps.append(
                _Step(func, *given, tuple([self._number(tensor, before) for tensor in results]))
            )
        return result

    def _number(self, tensor: torch.Tensor, before: set[Memory | None]) -> int | None:
        record = memory_of(tensor)
        if record is None or record in before or record.device.type != "cuda":
            return None
        self.made[record] = next(self._numbers)
        return self.made[record]

    def _named(self, value: Any, func: Any) -> Any:
        if isinstance(value, torch.Tensor):
            record = memory_of(value)
            if record is not None and record in self.made:
                return _Made(
                    self.made[record],
                    tuple(value.size()),
                    value.stride(),
                    int(value.storage_offset()),
                    value.dtype,
                )
            if value.dim() == 0 and func not in _COPIES and device_of(value).type == "cpu":
                return (
                    value.clone()
                )  # a kernel gets a number of the host as an argument, and a graph keeps arguments
            return value
        if isinstance(value, (list, tuple)):
            return type(value)([self._named(part, func) for part in value])
        return value

    def _keep_what_is_written(self, op: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        for position in op.written:
            value = args[position] if position < len(args) else kwargs.get(op.argument_names[position])
            for tensor in tensors_in(value):
                record = memory_of(tensor)
                if record is None or not record.virtual or record in self.made or record in self._written:
                    continue
                self._written[record] = _copied(record.shadow), record.assumed


def _copied(shadow: torch.UntypedStorage | None) -> torch.UntypedStorage | None:
    if shadow is None:
        return None
    copied: torch.UntypedStorage = _Storage(shadow.nbytes())
    copied.copy_(shadow)
    return copied


def _waits_for_gpu(
    op: Operator, tensors: list[torch.Tensor], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> bool:
    """Whether the host would wait for the GPU, which a capture cannot."""
    target = kwargs.get("device")
    if not any(device_of(tensor).type == "cuda" for tensor in tensors) and (
        target is None or torch.device(target).type != "cuda"
    ):
        return False
    if op.func is aten._local_scalar_dense.default or op.dynamic_shape:
        return True
    if op.func is aten._to_copy.default:
        # Autograd's casts name the carrier's device.
        crosses = target is not None and {device_of(args[0]).type, torch.device(target).type} == {
            "cpu",
            "cuda",
        }
        ends = [args[0]] if crosses else []
        waits = not kwargs.get("non_blocking")
    elif op.func is aten.copy_.default:
        ends = [end for end in args[:2] if device_of(end).type == "cpu"]
        waits = not (args[2] if len(args) > 2 else kwargs.get("non_blocking"))
    else:
        return False
    pinned = [record is not None and record.pinned for record in map(memory_of, ends)]
    return bool(ends) and (waits or not all(pinned))


class _Holders:
    """What the state of a generator keeps on its GPU for the graphs that draw from it."""

    def __init__(self, ledger: DeviceLedger) -> None:
        self._ledger = ledger
        self._graphs = 0
        self._bookings: list[Booking] = []

    def add(self) -> None:
        """One more graph."""
        self._graphs += 1
        if self._graphs == 1:
            self._bookings = [made for _ in range(2) if (made := self._ledger.allocate(_HOLDER)) is not None]

    def drop(self) -> None:
        """One graph fewer."""
        self._graphs -= 1
        if not self._graphs:
            for booking in self._bookings:
                self._ledger.give_back(booking)
            self._bookings = []


_holders: WeakKeyDictionary[Philox, _Holders] = WeakKeyDictionary()


class CUDAGraph:
    """`torch.cuda.CUDAGraph` of a virtual machine."""

    __module__ = "torch.cuda.graphs"

    def __init__(self, keep_graph: bool = False) -> None:
        self._capture: _Capture | None = None  # which `__del__` looks for
        self._ledger: DeviceLedger | None = None
        self._draws_from: list[Philox] = []
        self._engine = current_machine().part(Engine)
        self._captured: _Capture | None = None
        self._pool = new_pool(by_user=False)
        self._dropped: list[list[int]] = []
        self._left: dict[int, int] = {}

    def register_generator_state(self, generator: torch._C.Generator) -> None:
        """The graph draws from a generator beside the default one, or from another state of that."""
        state = virtual_state(generator)
        if state is None:
            raise RuntimeError("Expected a 'cuda' device type for generator but found 'cpu'")
        if state not in self._draws_from:
            self._draws_from.append(state)
            _holders.setdefault(state, _Holders(ledger_of(state.device))).add()

    def capture_begin(
        self, pool: Any = None, capture_error_mode: str = "global", check_input_liveness: bool = False
    ) -> None:
        """Record what this thread runs on GPUs from now on."""
        if current_stream().stream_id == 0:
            raise RuntimeError(_DEFAULT_STREAM)
        if self._capture is not None or self._captured is not None:
            raise RuntimeError(
                "This CUDAGraph instance already owns a captured graph. To capture a new graph, create a "
                "new instance."
            )
        self._pool = pool or self._pool
        self._ledger = ledger_of(None)
        self.register_generator_state(torch.cuda.default_generators[torch.cuda.current_device()])
        thread = threading.get_ident()
        self._ledger.fill(self._pool, lambda stream: threading.get_ident() == thread)
        with self._ledger.alone() as allocator:
            allocator.capturing += 1
        self._capture = _Capture(self._engine)
        capturing.now = True

    def capture_end(self) -> None:
        """The graph is whole."""
        capture, self._capture = self._capture, None
        if capture is None:
            raise RuntimeError("Called CUDAGraph::capture_end without a preceding call of capture_begin.")
        self._end(capture)
        if capture.failed:
            raise TORCH.accelerator_error(_INVALIDATED)
        self._captured = capture
        last_use: dict[int, int] = {}
        for index, step in enumerate(capture.steps):
            for number in (
                *_numbers_in((step.args, step.kwargs)),
                *(n for n in step.results if n is not None),
            ):
                last_use[number] = index
        self._dropped = [
            [number for number, last in last_use.items() if last == index]
            for index in range(len(capture.steps))
        ]
        # What is held at the end keeps its place in the pool: a program may come back to it by its address.
        self._left = {record.address: number for record, number in capture.made.items() if record.booked}

    def _end(self, capture: _Capture) -> None:
        assert self._ledger is not None, "a capture has begun"
        capture.end()
        capturing.now = False
        self._ledger.end_filling(self._pool)
        with self._ledger.alone() as allocator:
            allocator.capturing -= 1

    def __del__(self) -> None:
        if self._capture is not None:  # an error ended it half-way
            self._end(self._capture)
        self.reset()

    def instantiate(self) -> None:
        """Nothing to do."""

    def replay(self) -> None:
        """Run the captured operators on what their inputs hold now."""
        capture = self._captured
        if capture is None:
            raise RuntimeError("Called CUDAGraph::replay without a preceding successful capture.")
        if self._engine.left:
            raise UsageError(
                "The virtual machine on which this graph was captured was left; replay it there."
            )
        held = {*capture.made.values(), *self._left.values()}
        storages: dict[int, torch.UntypedStorage] = {}
        assert self._ledger is not None, "it was captured"
        with self._ledger.unbooked(), _below_autograd():
            for step, dropped in zip(capture.steps, self._dropped, strict=True):
                result = self._engine.run(
                    step.func, _filled(step.args, storages), _filled(step.kwargs, storages)
                )
                for number, tensor in zip(step.results, tensors_in(result), strict=True):
                    if number is not None:
                        storages[number] = storage_of(tensor)
                for number in dropped:
                    if number not in held:
                        storages.pop(number, None)
        for record, number in list(capture.made.items()):
            fresh: Memory = storages[number]._sd  # type: ignore[attr-defined]
            record.shadow, record.assumed = fresh.shadow, fresh.assumed
        for address, number in self._left.items():
            leave_bytes(address, storages[number]._sd.shadow)  # type: ignore[attr-defined]

    def reset(self) -> None:
        """Forget the graph; its pool may be given back."""
        self._captured = None
        self._left = {}
        self._dropped = []
        if self._ledger is not None:
            self._ledger.settle().leave_pool(self._pool)
            self._ledger = None
        for state in self._draws_from:
            _holders[state].drop()
        self._draws_from = []

    def pool(self) -> tuple[int, int]:
        """A token for the graph's memory."""
        return self._pool

    def enable_debug_mode(self) -> None:
        """There is nothing to dump."""

    def _refuse(self, *args: Any) -> NoReturn:
        raise UnsupportedFeatureError(
            "The nodes of a torch.cuda.CUDAGraph are not there on a virtual machine; capture and replay are."
        )

    debug_dump = raw_cuda_graph = raw_cuda_graph_exec = get_graph_data = _refuse


def _numbers_in(value: Any) -> Iterator[int]:
    if isinstance(value, _Made):
        yield value.number
    elif isinstance(value, dict):
        yield from _numbers_in(list(value.values()))
    elif isinstance(value, (list, tuple)):
        for part in value:
            yield from _numbers_in(part)


def _filled(value: Any, storages: dict[int, torch.UntypedStorage]) -> Any:
    if isinstance(value, _Made):
        made = carrier((0,), (1,), value.dtype)
        return made.set_(storages[value.number], value.offset, value.size, value.stride)
    if isinstance(value, dict):
        return {name: _filled(part, storages) for name, part in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)([_filled(part, storages) for part in value])
    return value


@contextmanager
def _below_autograd() -> Iterator[None]:
    """As in a dispatch mode: no graph is built, torch's own answers show."""
    with as_torch():
        with torch._C._AutoDispatchBelowAutograd(), _disable_current_modes():
            yield


def _instead(cls: type, *args: Any, **kwargs: Any) -> CUDAGraph:
    return CUDAGraph(*args, **kwargs)


_TORCH_GRAPH = torch.cuda.graphs.CUDAGraph
_CAPTURE = "C++ would ask CUDA, which a build without it cannot"
_COMPILER = "torch's compiler imports it where CUDA is built in, also for `torch.compiler.reset`"
PATCHES = (
    *POOL_STATES,
    Patch(
        "torch.cuda.CUDAGraph",
        Constant(CUDAGraph),
        "a graph of CUDA records kernels, and none runs here",
        copies="torch.cuda",
    ),
    Patch(
        "torch.cuda.graphs.CUDAGraph.__new__",
        Constant(_instead),
        "for code that imported the class before",
        owner=lambda: _TORCH_GRAPH,
    ),
    Patch("torch.cuda.graphs._graph_pool_handle", Constant(lambda: new_pool(by_user=True)), _CAPTURE),
    Patch("torch.cuda.graphs._cuda_isCurrentStreamCapturing", Constant(is_capturing), _CAPTURE),
    Patch("torch._C._cuda_isCurrentStreamCapturing", Constant(is_capturing), _CAPTURE),
    Patch(
        "torch.cuda.graphs.graph.default_capture_stream",
        Constant(None),
        "torch keeps the stream of its first capture, which may be of another machine",
    ),
    Patch(
        "torch._C._cuda_CUDAAllocator_AllocatorState",
        Constant(type("_cuda_CUDAAllocator_AllocatorState", (), {})),
        _COMPILER,
    ),
    Patch(
        "torch._C._set_cached_tensors_enabled",
        Constant(lambda enabled: None),
        _COMPILER,
        when=lambda: not hasattr(torch._C, "_set_cached_tensors_enabled"),
    ),
)
"""`torch.cuda.graph` and `make_graphed_callables` stay torch's own."""
