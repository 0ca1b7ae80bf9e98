"""The functions of `torch._C` beneath `torch.cuda.memory`: snapshots, history, settings, pools, raw memory.

Must guarantee: what a program asks of the allocator is answered by the entered machine's, of all visible
GPUs, in the layout of the installed torch; what is missing (allocators of one's own, managed memory) is
refused by name.
"""

from __future__ import annotations

import contextlib
import itertools
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any
from weakref import WeakKeyDictionary

import torch

from samedevice.errors import UnsupportedFeatureError
from samedevice.runtime.cuda.streams import stream_handle
from samedevice.runtime.state import (
    Booking,
    DeviceLedger,
    MachineState,
    OutOfDeviceMemoryError,
    PoolId,
    current_machine,
    frames_of,
    parse_settings,
    segments_of,
    settings_of,
    trace_of,
)
from samedevice.torch_versions.adapter import RELEASE

_ACTIONS = ("all", "state")
_CONTEXTS = (None, "state", "alloc", "all")
_VALUE_ERRORS_SINCE = (2, 9)
"""Since then wrong settings raise ValueError, RuntimeError before."""

_user_pools, _graph_pools = itertools.count(1), itertools.count(1)
_raw: WeakKeyDictionary[MachineState, dict[int, tuple[DeviceLedger, Booking | None]]] = WeakKeyDictionary()
"""Memory that was given out as an address; without a booking where it did not come from the cache."""


def ledger_of(device: Any) -> DeviceLedger:
    """The ledger of a visible GPU, named in any way."""
    state = current_machine()
    return state.ledger(state.index(device))


def _ledgers() -> list[DeviceLedger]:
    return list(current_machine().ledgers().values())


# -- snapshots and history


def _snapshot(asked: Sequence[Any] | None = None) -> dict[str, Any]:
    """Of all visible GPUs; `asked` is a pool, where it is not (0, 0), and whether traces are wanted."""
    pool = None if asked is None or tuple(asked[:2]) == (0, 0) else (asked[0], asked[1])
    traces = asked is None or len(asked) < 3 or bool(asked[2])
    segments: list[dict[str, Any]] = []
    device_traces = []
    for index, ledger in enumerate(_ledgers()):
        with ledger.alone() as allocator:
            # The trace is taken first: a snapshot is an entry of the next one.
            device_traces.append(trace_of(allocator, index, stream_handle) if traces else [])
            segments += segments_of(allocator, index, stream_handle, pool)
    return {
        "segments": segments,
        "device_traces": device_traces,
        "allocator_settings": settings_of(current_machine().allocator_settings),
        "external_annotations": [],
    }


def _record_history(
    enabled: str | None,
    context: str | None = "all",
    stacks: str = "all",
    max_entries: int = 1 << 62,
    clear_history: bool = False,
    compile_context: bool = False,
    global_record_annotations: bool = False,
    skip_actions: Sequence[str] = (),
    record_pinned_host_memory: bool = False,
    record_cuda: bool = True,
) -> None:
    if record_pinned_host_memory:
        raise UnsupportedFeatureError("A history of pinned host memory is not kept on a virtual machine.")
    if enabled is not None and enabled not in _ACTIONS:
        raise RuntimeError("expected state to be 'state', 'all', or None")
    if context not in _CONTEXTS:
        raise RuntimeError("expected context to be 'state', 'alloc', 'all', or None")
    if stacks not in ("python", "all"):
        raise RuntimeError("expected stacks to be 'python', or 'all'")
    current_machine().initialize()
    for ledger in _ledgers() if record_cuda else ():
        with ledger.alone() as allocator:
            allocator.history.record(
                enabled,
                context,
                max_entries,
                skip_actions,
                operators=stacks == "all",
                clear=clear_history,
            )


def _record_history_legacy(
    enabled: bool,
    record_context: bool = True,
    trace_alloc_max_entries: int = 1,
    trace_alloc_record_context: bool = False,
    record_cpp_context: bool = False,
    *others: Any,
) -> None:
    context = "alloc" if trace_alloc_record_context else "state" if record_context else None
    stacks = "all" if record_cpp_context else "python"
    actions, wanted = ("all", context) if enabled else (None, None)
    _record_history(actions, wanted, stacks, trace_alloc_max_entries, *others)


def _history_is_on() -> bool:
    return any(ledger.settle().history.on for ledger in _ledgers())


def _traceback_of(address: int) -> list[dict[str, Any]] | None:
    for ledger in _ledgers():
        if (stack := ledger.settle().history.stacks.get(address)) is not None:
            return frames_of(stack)
    return None


def _set_metadata(text: str) -> None:
    for ledger in _ledgers():
        ledger.settle().history.metadata = text


def _metadata() -> str:
    return next((ledger.settle().history.metadata for ledger in _ledgers()), "")


# -- settings


def _set_settings(text: str) -> None:
    state = current_machine()
    try:
        settings = parse_settings(text, state.allocator_settings)
    except ValueError as error:
        if RELEASE >= _VALUE_ERRORS_SINCE:
            raise
        raise RuntimeError(str(error)) from None
    state.allocator_settings = settings
    for ledger in state.physical_ledgers():
        ledger.configure(settings)


# -- pools


def new_pool(*, by_user: bool) -> PoolId:
    """The id of a pool that is not there yet: a program's has 0 first, a graph's own has 0 last."""
    return (0, next(_user_pools)) if by_user else (next(_graph_pools), 0)


def _fill_on_this_thread(device: int, pool: PoolId) -> None:
    thread = threading.get_ident()
    ledger_of(device).fill(pool, lambda stream: threading.get_ident() == thread)


def _fill_on_this_stream(device: int, pool: PoolId) -> None:
    from_stream = torch.cuda.current_stream(device).stream_id
    ledger_of(device).fill(pool, lambda stream: stream == from_stream)


def _end_filling(device: int, pool: PoolId) -> None:
    ledger_of(device).end_filling(pool)


def _release_pool(device: int, pool: PoolId) -> None:
    ledger_of(device).settle().leave_pool(pool)


def _live_allocations_are(device: int, pool: PoolId, expected: set[int]) -> bool:
    segments = segments_of(ledger_of(device).settle(), device, stream_handle, pool)
    live = {
        block["address"]
        for segment in segments
        for block in segment["blocks"]
        if block["state"] != "inactive"
    }
    return live == set(expected)


class MemPool:
    """`torch.cuda.MemPool`: memory that only allocations inside of `use_mem_pool` get."""

    __module__ = "torch.cuda.memory"

    def __init__(
        self, allocator: Any = None, use_on_oom: bool = False, no_split: bool = False, **others: Any
    ) -> None:
        if allocator is not None or any(others.values()):
            raise UnsupportedFeatureError(
                "torch.cuda.MemPool with an allocator of one's own is not supported on a virtual machine."
            )
        self._id = new_pool(by_user=True)
        self._ledger = ledger_of(None)
        with self._ledger.alone() as made:
            pool = made.hold_pool(self._id)
            pool.use_on_oom, pool.no_split = use_on_oom, no_split

    @property
    def id(self) -> PoolId:
        """Its id, two numbers."""
        return self._id

    @property
    def allocator(self) -> None:
        """None: memory comes from the caching allocator."""

    def use_count(self) -> int:
        """How many hold it: this object, and everyone inside of `use_mem_pool`."""
        return self._ledger.settle().pools[self._id].uses

    def snapshot(self, include_traces: bool = True) -> list[dict[str, Any]]:
        """Its segments."""
        found: list[dict[str, Any]] = _snapshot((*self._id, include_traces))["segments"]
        return found

    def __del__(self) -> None:
        if "_ledger" in vars(self):
            self._ledger.settle().leave_pool(self._id)
            self._ledger.empty_cache(self._id)


@contextlib.contextmanager
def use_mem_pool(pool: MemPool, device: Any = None) -> Iterator[None]:
    """This thread's allocations go to the pool."""
    state = current_machine()
    index = state.index(device)
    _fill_on_this_thread(index, pool.id)
    try:
        yield
    finally:
        _end_filling(index, pool.id)
        _release_pool(index, pool.id)


# -- raw memory


def given_out() -> dict[int, tuple[DeviceLedger, Booking | None]]:
    """Memory that the program frees by its address, with the ledger that has it."""
    return _raw.setdefault(current_machine(), {})


def _raw_allocate(size: int, stream: int = 0) -> int:
    state = current_machine()
    ledger = ledger_of(None)
    if not state.caching and size:
        with ledger.alone() as allocator:
            address = allocator.take_outside(size)
        given_out()[address] = (ledger, None)
        return address
    try:
        booking = ledger.allocate(size)
    except OutOfDeviceMemoryError:
        raise torch.OutOfMemoryError(
            f"CUDA out of memory. Tried to allocate {size / (1 << 20):.2f} MiB. GPU {state.current_device()} "
            f"has a total capacity of {ledger.total / (1 << 30):.2f} GiB of which "
            f"{ledger.free / (1 << 30):.2f} GiB is free."
        ) from None
    if booking is None:
        return 0
    address = ledger.address(booking)
    given_out()[address] = (ledger, booking)
    return address


def _raw_delete(address: int) -> None:
    if not address:
        return
    found = given_out().pop(address, None)
    if found is None:
        raise RuntimeError(f"invalid device pointer: {address:#x}")
    ledger, booking = found
    if booking is not None:
        ledger.give_back(booking)
        return
    with ledger.alone() as allocator:
        allocator.leave_outside(address)


def _set_caching(value: bool) -> None:
    current_machine().caching = value


MEMORY_FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "_cuda_memorySnapshot": _snapshot,
    "_cuda_record_memory_history": _record_history,
    "_cuda_record_memory_history_legacy": _record_history_legacy,
    "_cuda_isHistoryEnabled": _history_is_on,
    "_cuda_allocationTraceback": _traceback_of,
    "_cuda_setMemoryMetadata": _set_metadata,
    "_cuda_getMemoryMetadata": _metadata,
    "_cuda_cudaCachingAllocator_set_allocator_settings": _set_settings,
    "_accelerator_setAllocatorSettings": _set_settings,
    "_accelerator_getAllocatorSettings": lambda: current_machine().allocator_settings.text,
    "_cuda_beginAllocateToPool": _fill_on_this_thread,
    "_cuda_beginAllocateCurrentThreadToPool": _fill_on_this_thread,
    "_cuda_beginAllocateCurrentStreamToPool": _fill_on_this_stream,
    "_cuda_endAllocateToPool": _end_filling,
    "_cuda_endAllocateCurrentStreamToPool": _end_filling,
    "_cuda_releasePool": _release_pool,
    "_cuda_checkPoolLiveAllocations": _live_allocations_are,
    "_cuda_cudaCachingAllocator_enable": _set_caching,
    "_cuda_cudaCachingAllocator_is_enabled": lambda: current_machine().caching,
    "_cuda_cudaCachingAllocator_raw_alloc": _raw_allocate,
    "_cuda_cudaCachingAllocator_raw_delete": _raw_delete,
}

__all__ = ["MEMORY_FUNCTIONS", "MemPool", "given_out", "ledger_of", "new_pool", "use_mem_pool"]
