"""Streams and events of virtual GPUs.

Operators run at once and in order, so a stream has little more than an identity: its device, its number, and
whether it is the thread's current one. An event takes the host's time when it is recorded. Both are true
`torch.Stream`s and `torch.Event`s, C++ included.

One thing takes its time: `torch.cuda._sleep`, which programs use to see what waits for what. A stream that
sleeps is busy as long as a GPU would spin; events recorded on it, and streams that wait for these, end when
it ends, and the host waits where it would.
"""

from __future__ import annotations

import ctypes
import functools
import itertools
import threading
import time
from collections.abc import Callable
from typing import Any, NoReturn
from weakref import WeakKeyDictionary

import torch

from samedevice.errors import UnsupportedFeatureError
from samedevice.runtime.patching import Constant, Patch
from samedevice.runtime.state import MachineState, TorchDevice, current_machine
from samedevice.torch_versions.adapter import TORCH

# The classes themselves: inside a machine torch's names are replaced.
TorchStream = torch._C.Stream
TorchEvent = torch._C.Event

_TORCH_CUDA = {name: getattr(torch.cuda, name) for name in ("Stream", "ExternalStream", "Event")}

_CUDA_DEVICE_TYPE = 1  # c10::DeviceType::CUDA
_GREATEST_PRIORITY = -3  # c10::cuda::max_compile_time_stream_priorities - 1, as a priority
_HANDLE_BASE = 0x5A3E_0000_0000
HINT = (
    "\nCUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace below "
    "might be incorrect.\nFor debugging consider passing CUDA_LAUNCH_BLOCKING=1\nCompile with "
    "`TORCH_USE_CUDA_DSA` to enable device-side assertions.\n"
)
"""What torch adds to each error of the runtime."""


def stream_handle(stream_id: int) -> int:
    """What a program sees of a stream: 0 for the default one, made up for others."""
    return _HANDLE_BASE + stream_id * 16 if stream_id & 1 else stream_id


class StreamBook:
    """The streams of one machine."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)
        self._local = threading.local()
        self.priorities: dict[int, int] = {}
        self._busy: dict[tuple[int, int], float] = {}
        """When a stream that sleeps will have done its work, by device and id."""

    def new(self, priority: int) -> int:
        """Id of a new stream; odd, since c10 keeps the low bit for streams of its own pools."""
        stream_id = next(self._numbers) * 2 + 1
        self.priorities[stream_id] = max(_GREATEST_PRIORITY, min(0, priority))
        return stream_id

    def handle(self) -> int:
        """A handle for a stream that a program makes by the runtime.

        Even multiples are free, `Stream.cuda_stream` has odd ones.
        """
        return _HANDLE_BASE + next(self._numbers) * 2 * 16

    def occupy(self, index: int, stream_id: int, until: float) -> None:
        """A stream does nothing else before that time."""
        if until > self.done(index, stream_id):
            self._busy[index, stream_id] = until

    def done(self, index: int, stream_id: int) -> float:
        """When a stream will have done what it was given; now, if that is over."""
        return max(time.perf_counter(), self._busy.get((index, stream_id), 0.0))

    def idle(self, index: int, stream_id: int) -> bool:
        """Whether a stream has nothing left to do."""
        return self._busy.get((index, stream_id), 0.0) <= time.perf_counter()

    def wait_for_device(self, index: int) -> None:
        """The host waits for all streams of a GPU."""
        for (device, _), until in list(self._busy.items()):
            if device == index:
                wait_until(until)

    def wait_for_current(self, index: int) -> None:
        """The host waits for this thread's stream of a GPU, as a read of a value does."""
        if self._busy:
            wait_until(self._busy.get((index, self.current(index)), 0.0))

    def current(self, index: int) -> int:
        """Id of this thread's current stream on a device; 0 is the default stream."""
        chosen: dict[int, int] = getattr(self._local, "current", {})
        return chosen.get(index, 0)

    def forget_current(self) -> None:
        """This thread is back on the default streams."""
        self._local.current = {}

    def select(self, index: int, stream_id: int) -> None:
        """Make a stream this thread's current one on its device."""
        if not hasattr(self._local, "current"):
            self._local.current = {}
        self._local.current[index] = stream_id


def wait_until(moment: float) -> None:
    """The host does nothing before a moment of `time.perf_counter`."""
    while (left := moment - time.perf_counter()) > 0:
        time.sleep(left)


_tracker: WeakKeyDictionary[MachineState, StreamBook] = WeakKeyDictionary()
_books_lock = threading.Lock()


def stream_book() -> StreamBook:
    """The streams of the machine that is entered now."""
    with _books_lock:
        return _tracker.setdefault(current_machine(), StreamBook())


def forget_current_streams(state: MachineState) -> None:
    """Back to the default stream of each device, in this thread."""
    with _books_lock:
        if state in _tracker:
            _tracker[state].forget_current()


def current_stream(device: Any = None) -> Stream:
    """This thread's current stream on a device."""
    index = _index(device)
    return Stream(stream_id=stream_book().current(index), device_index=index, device_type=_CUDA_DEVICE_TYPE)


def select_stream(stream_id: int, device_index: int, device_type: int) -> None:
    """Make a stream current, and its device this thread's current device."""
    state, book = current_machine(), stream_book()
    state.set_current_device(device_index)
    book.select(device_index, stream_id)
    if stream_id and (ledger := state.ledger(device_index)).settle().current_stream is None:
        # Blocks belong to streams from now on.
        with ledger.alone() as allocator:
            allocator.current_stream = functools.partial(book.current, device_index)
            allocator.stream_idle = functools.partial(book.idle, device_index)


_SLEEP_CYCLES_PER_SECOND = 1.5e9
"""A round clock: what GPUs run at differs by board and load, and programs that sleep measure it first."""


def sleep(cycles: int) -> None:
    """`torch.cuda._sleep`: the current stream spins. A graph that is captured keeps no sleep."""
    if capturing.now:
        return
    _sleeping.ever = True
    index = _index(None)
    book = stream_book()
    stream_id = book.current(index)
    book.occupy(index, stream_id, book.done(index, stream_id) + cycles / _SLEEP_CYCLES_PER_SECOND)


def synchronize(device: Any = None) -> None:
    """The host waits for a GPU."""
    stream_book().wait_for_device(_index(device))


def wait_for_copy(*ends: torch.device) -> None:
    """The host waits for the streams of a copy that it takes part in."""
    if _sleeping.ever:
        for end in ends:
            if end.type == "cuda":
                stream_book().wait_for_current(int(end.index))


def _index(device: Any) -> int:
    """A GPU's index; None and negative integers mean the current one, as for `torch.cuda.device`."""
    state = current_machine()
    return state.index(None if isinstance(device, int) and device < 0 else device)


class _Capturing(threading.local):
    """Whether this thread captures a CUDA graph."""

    now = False


capturing = _Capturing()


class _Sleeping:
    """Whether any stream of this process ever slept: where none did, nobody waits."""

    ever = False


_sleeping = _Sleeping()


def is_capturing() -> bool:
    """Whether this thread captures a CUDA graph."""
    return capturing.now


class _AnyType(type):
    """Type of `torch.Stream` and `torch.Event` inside a machine.

    Calls make the right kind, and torch's own are instances, too.
    """

    original: type
    make: Callable[..., Any]

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        return cls.make(*args, **kwargs) if "make" in vars(cls) else super().__call__(*args, **kwargs)

    def __instancecheck__(cls, instance: Any) -> bool:
        return (
            isinstance(instance, cls.original) if "make" in vars(cls) else super().__instancecheck__(instance)
        )

    def __subclasscheck__(cls, subclass: type) -> bool:
        return (
            issubclass(subclass, cls.original) if "make" in vars(cls) else super().__subclasscheck__(subclass)
        )


class AnyStream(TorchStream, metaclass=_AnyType):
    """`torch.Stream` inside a machine."""

    __module__ = "torch"
    __qualname__ = "Stream"
    original = TorchStream

    @staticmethod
    def make(device: Any = None, *, priority: int = 0, **kwargs: Any) -> Any:
        """A stream of a virtual GPU, or torch's own of another device."""
        if "stream_id" in kwargs:
            if kwargs.get("device_type") == _CUDA_DEVICE_TYPE:
                return Stream(**kwargs)
            return TorchStream(**kwargs)
        place = current_machine().device(device)
        return Stream(place, priority) if place.type == "cuda" else TorchStream(place, priority=priority)


class AnyEvent(TorchEvent, metaclass=_AnyType):
    """`torch.Event` inside a machine."""

    __module__ = "torch"
    __qualname__ = "Event"
    original = TorchEvent

    @staticmethod
    def make(
        device: Any = None, *, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False
    ) -> Any:
        """An event of a virtual GPU, or torch's own of another device."""
        place = current_machine().device(device)
        if place.type == "cuda":
            return Event(enable_timing, blocking, interprocess)
        return TorchEvent(place, enable_timing=enable_timing, blocking=blocking, interprocess=interprocess)


class Stream(AnyStream):
    """`torch.cuda.Stream` of a virtual GPU."""

    __module__ = "torch.cuda.streams"
    _entered: list[tuple[int, int]]

    def __new__(cls, device: Any = None, priority: int = 0, **kwargs: Any) -> Stream:
        if "stream_id" in kwargs and "device_index" in kwargs:
            stream_id, index = kwargs["stream_id"], kwargs["device_index"]
        else:
            index = _index(device)
            stream_id = kwargs.get("stream_ptr", 0) or stream_book().new(priority)
        stream: Stream = super().__new__(
            cls, stream_id=stream_id, device_index=index, device_type=_CUDA_DEVICE_TYPE
        )
        stream._entered = []
        return stream

    def __init__(self, device: Any = None, priority: int = 0, **kwargs: Any) -> None:
        pass

    @property
    def cuda_stream(self) -> int:
        """The handle: 0 for the default stream, made up for others."""
        return stream_handle(self.stream_id)

    @property
    def native_handle(self) -> int:
        """The same handle, by the name that all accelerators share."""
        return self.cuda_stream

    @property
    def priority(self) -> int:
        """0 to -3; lower goes first."""
        return stream_book().priorities.get(self.stream_id, 0)

    @staticmethod
    def priority_range() -> tuple[int, int]:
        """Lowest and highest priority."""
        return 0, _GREATEST_PRIORITY

    @property
    def _as_parameter_(self) -> ctypes.c_void_p:
        return ctypes.c_void_p(self.cuda_stream)

    def wait_event(self, event: Any) -> None:
        """What comes on this stream comes after the event."""
        event.wait(self)

    def wait_stream(self, stream: Any) -> None:
        """What comes on this stream comes after what the other has now."""
        self.wait_event(stream.record_event())

    def record_event(self, event: Any = None) -> Any:
        """Record an event, a new one when none is given."""
        if event is None:
            event = Event()
        event.record(self)
        return event

    def query(self) -> bool:
        """Whether it has nothing left to do."""
        return stream_book().idle(self.device_index, self.stream_id)

    def synchronize(self) -> None:
        """The host waits for it."""
        wait_until(stream_book().done(self.device_index, self.stream_id))

    def is_capturing(self) -> bool:
        """Whether this thread captures a graph."""
        return is_capturing()

    def __enter__(self) -> Stream:
        state = current_machine()
        self._entered.append((state.current_device(), stream_book().current(self.device_index)))
        select_stream(self.stream_id, self.device_index, self.device_type)
        return self

    def __exit__(self, *exc_info: object) -> None:
        device, stream_id = self._entered.pop()
        stream_book().select(self.device_index, stream_id)
        current_machine().set_current_device(device)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Stream):
            return False
        return (self.stream_id, self.device_index) == (other.stream_id, other.device_index)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash((self.cuda_stream, self.device_index))

    def __repr__(self) -> str:
        return f"<torch.cuda.Stream device={self.device} cuda_stream={self.cuda_stream:#x}>"

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, self.cuda_stream


class ExternalStream(Stream):
    """`torch.cuda.ExternalStream`: a handle from elsewhere, kept and never used."""

    __module__ = "torch.cuda.streams"

    def __new__(cls, stream_ptr: int, device: Any = None, **kwargs: Any) -> ExternalStream:
        return super().__new__(cls, device, stream_ptr=stream_ptr, **kwargs)  # type: ignore[return-value]  # the class given, by contract of __new__

    def __init__(self, stream_ptr: int, device: Any = None, **kwargs: Any) -> None:
        pass


class Event(AnyEvent):
    """`torch.cuda.Event`: when its stream had done what it was given before."""

    __module__ = "torch.cuda.streams"
    _timing: bool
    _recorded_at: float | None
    _recorded_on: torch.device | None

    def __new__(
        cls,
        enable_timing: bool = False,
        blocking: bool = False,
        interprocess: bool = False,
        external: bool = False,
    ) -> Event:
        # An event of the host: CPU builds have no other.
        event: Event = super().__new__(cls, device=TorchDevice("cpu"))
        event._timing = enable_timing
        event._recorded_at = None
        event._recorded_on = None
        return event

    def __init__(
        self,
        enable_timing: bool = False,
        blocking: bool = False,
        interprocess: bool = False,
        external: bool = False,
    ) -> None:
        pass

    @classmethod
    def from_ipc_handle(cls, device: Any, handle: bytes) -> NoReturn:
        """Not there: processes share no virtual GPU."""
        raise UnsupportedFeatureError(
            "torch.cuda.Event.from_ipc_handle is not supported on a virtual machine."
        )

    def ipc_handle(self) -> NoReturn:
        """Not there: processes share no virtual GPU."""
        raise UnsupportedFeatureError("torch.cuda.Event.ipc_handle is not supported on a virtual machine.")

    @property
    def device(self) -> torch.device:  # type: ignore[override]  # torch's stub declares a plain attribute
        """The device it was recorded on; None before, as in CUDA."""
        return self._recorded_on  # type: ignore[return-value]  # torch.cuda.Event answers None too

    @property
    def cuda_event(self) -> int:
        """The handle, made up; 0 before the event is recorded."""
        return 0 if self._recorded_at is None else _HANDLE_BASE + id(self)

    @property
    def event_id(self) -> int:  # type: ignore[override]  # torch's stub declares a plain attribute
        """The same handle, by the name that all accelerators share."""
        return self.cuda_event

    @property
    def _as_parameter_(self) -> ctypes.c_void_p:
        return ctypes.c_void_p(self.cuda_event)

    def record(self, stream: Any = None) -> None:
        """Take the time."""
        if stream is None:
            stream = current_stream()
        if self._recorded_on is not None and self._recorded_on != stream.device:
            raise RuntimeError(
                f"Event device {self._recorded_on.index} does not match recording stream's device "
                f"{stream.device.index}."
            )
        self._recorded_on = stream.device
        self._recorded_at = stream_book().done(stream.device_index, stream.stream_id)

    def wait(self, stream: Any = None) -> None:
        """What comes on the stream comes after this event."""
        if self._recorded_at is not None and self._recorded_at > time.perf_counter():
            if stream is None:
                stream = current_stream()
            stream_book().occupy(stream.device_index, stream.stream_id, self._recorded_at)

    def query(self) -> bool:
        """Whether what came before it is done."""
        return self._recorded_at is None or self._recorded_at <= time.perf_counter()

    def synchronize(self) -> None:
        """The host waits for what came before it."""
        wait_until(self._recorded_at or 0.0)

    def elapsed_time(self, end_event: Any) -> float:
        """Milliseconds of host time between two recordings.

        What the virtual machine took, not what a GPU would.
        """
        if self._recorded_at is None or end_event._recorded_at is None:
            raise ValueError("Both events must be recorded before calculating elapsed time.")
        if not (self._timing and end_event._timing):
            raise ValueError("Both events must be created with argument 'enable_timing=True'.")
        if self._recorded_on != end_event._recorded_on:
            raise TORCH.accelerator_error(f"CUDA error: invalid resource handle{HINT}")
        if not (self.query() and end_event.query()):
            raise TORCH.accelerator_error(f"CUDA error: device not ready{HINT}")
        return float((end_event._recorded_at - self._recorded_at) * 1000.0)

    def __repr__(self) -> str:
        return (
            f"<torch.cuda.Event {self.cuda_event:#x}>"
            if self.cuda_event
            else "<torch.cuda.Event uninitialized>"
        )


def _instead(kind: type) -> Callable[..., Any]:
    def new(cls: type, *args: Any, **kwargs: Any) -> Any:
        return kind(*args, **kwargs)

    return new


PATCHES = (
    *(
        Patch(
            f"torch.cuda.{kind.__name__}",
            Constant(kind),
            "streams and events of a GPU that is not there; their C++ class asks the driver",
            copies="torch.cuda",
        )
        for kind in (Stream, ExternalStream, Event)
    ),
    *(
        Patch(
            f"{_TORCH_CUDA[kind.__name__].__module__}.{kind.__name__}.__new__",
            Constant(_instead(kind)),
            "for code that imported the class before",
            owner=functools.partial(_TORCH_CUDA.__getitem__, kind.__name__),
        )
        for kind in (Stream, ExternalStream, Event)
    ),
    Patch("torch.Stream", Constant(AnyStream), "its C++ class makes streams of CUDA only with a driver"),
    Patch("torch.Event", Constant(AnyEvent), "its C++ class makes events of CUDA only with a driver"),
)
