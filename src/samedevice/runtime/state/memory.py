"""What the machine knows of a piece of memory: it is kept on the storage.

Note [A device is a property of memory]
A virtual tensor is a plain `torch.Tensor` on the meta device whose untyped storage carries a `Memory`. Views,
Parameters, `.data` and detached tensors share the storage and so share the device; `type(x) is torch.Tensor`
stays true; the record dies with the storage, and that is the ledger's free. Torch keeps a storage's Python
object, attributes included, for as long as the memory lives.

Note [Values]
`shadow` is a CPU storage of the same size that holds the true bytes, for small memory. Without a shadow the
values are not known: floats are never computed from unknown floats, while integers and booleans are assumed
to be zero when somebody asks, because zeros are valid indices and control flow goes on.

Small is up to `VALUE_LIMIT` bytes. Trainers put what is small into buffers that are not (`DataParallel`,
FSDP, DeepSpeed, communication hooks), and values must not depend on that: an operator is also computed where
its results have at most twice the bytes (a wider type, padding) that the known tensors hold which it reads,
up to `JOINED_SHARE` times the limit. The same holds for a copy to a GPU of host memory that took values from
one (`returned`), but for no other: weights that a loader brings are large.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterable, Iterator
from types import FrameType
from typing import Any

import torch

from samedevice.machines import value_limit
from samedevice.provenance import Site
from samedevice.runtime.state import plain
from samedevice.runtime.state.caching_allocator import Booking
from samedevice.runtime.state.calling_code import asker
from samedevice.runtime.state.decision import Decision, Taken
from samedevice.runtime.state.ledger import DeviceLedger
from samedevice.runtime.state.machine_state import CPU, META
from samedevice.runtime.state.parts import parts_of

VALUE_LIMIT = value_limit()
"""Bytes up to which values are computed; the environment variable `SAMEDEVICE_VALUE_LIMIT` sets another
number.
"""

JOINED_SHARE = 64
"""How many times that many bytes keep their values where they only hold what had some already: parameters and
gradients that were put into one buffer, and what is computed of it. See Note [Values].
"""

ASSUMED_FLOAT = 0.5
"""What an unknown float reads as: not zero, because scripts divide by what they read."""

_TensorBase = torch._C.TensorBase
raw_device: Any = _TensorBase.device.__get__
raw_is_meta: Any = vars(_TensorBase)["is_meta"].__get__
raw_data_ptr: Any = _TensorBase.data_ptr
storage_of: Any = _TensorBase.untyped_storage
Tensor = torch.Tensor
_empty_strided = torch.empty_strided
_empty = plain.empty


class _ThisThread(threading.local):
    """True while the engine itself runs a kernel in this thread: then torch's own answers must show."""

    raw = False
    device: torch.device | None = None
    """Where the last operator of this thread ran."""
    decision: Decision | None = None
    """What results of the running operator inherit; see Note [Decisions]."""
    taken: Taken | None = None
    """Whose device the running factory or move was given; see Note [Asked devices]."""
    to_meta = False
    """True while a script's own `.to("meta")` runs: C++ code that copies a carrier's options says
    `device=meta` too.
    """


this_thread = _ThisThread()


class as_torch:  # reads as the statement that it is: `with as_torch():`
    """Inside this block torch's own answers show in this thread, as while the engine runs a kernel."""

    __slots__ = ("_before",)

    def __enter__(self) -> None:
        self._before = this_thread.raw
        this_thread.raw = True

    def __exit__(self, *error: object) -> None:
        this_thread.raw = self._before


class Memory:
    """Record of one storage."""

    __slots__ = (
        "__weakref__",
        "_address",
        "_booking",
        "_ledger",
        "assumed",
        "blank",
        "decision",
        "device",
        "gradient_returns",
        "loose",
        "made",
        "moved",
        "parts",
        "pinned",
        "returned",
        "shadow",
        "virtual",
    )

    def __init__(
        self, device: torch.device, *, virtual: bool, made: Site | None = None, moved: Site | None = None
    ) -> None:
        self.device = device
        self.decision = this_thread.decision
        """Why it is on that device; None when nobody saw that."""
        self.virtual = virtual
        """False for real host memory, which is recorded for its provenance only."""
        self.shadow: torch.UntypedStorage | None = None
        self.assumed = False
        """True when some value was assumed, not computed."""
        self.blank = False
        """True for memory too large to hold values that was only made, not written: see Note [Large buffers].
        """
        self.made = made
        self.moved = moved
        self.pinned = False
        self.returned = False
        """True for host memory that took known values of a GPU, which may go back in one piece."""
        self.parts: list[weakref.ref[Memory]] | None = None
        """Records of storages that are slices of this one."""
        self.gradient_returns = False
        self.loose = False
        """True for what autograd made on a guess of its device: it belongs to whatever it meets."""
        self._address = 0
        self._ledger: DeviceLedger | None = None
        self._booking: Booking | None = None

    @property
    def uncomputed(self) -> bool:
        """Whether what is read from here was computed by nobody."""
        return self.assumed or (self.virtual and self.shadow is None)

    @property
    def address(self) -> int:
        """Where it lies; 0 for memory without bytes."""
        if self._booking is None or self._ledger is None:
            return self._address
        return self._ledger.address(self._booking)

    @address.setter
    def address(self, address: int) -> None:
        self._address = address

    @property
    def booked(self) -> int:
        """Bytes that its device's ledger has it down for."""
        return 0 if self._booking is None else self._booking[0]

    def book(self, ledger: DeviceLedger, nbytes: int) -> None:
        """Enter the bytes into a device's ledger; they leave it when the record dies."""
        self._booking = ledger.allocate(nbytes)
        self._ledger = ledger

    def booked_at(self, ledger: DeviceLedger) -> int:
        """The address of its block of a ledger; 0 where it has none there."""
        return self.address if self._booking is not None and self._ledger is ledger else 0

    def own(self, ledger: DeviceLedger, block: int, nbytes: int) -> None:
        """Hold a block that is in use already; it leaves the ledger when the record dies."""
        self._booking = [nbytes, block]
        self._ledger = ledger

    def disown(self) -> None:
        """Hold no block any more: somebody else gives it back. The address stays."""
        self._address, self._booking = self.address, None

    def rebook(self, nbytes: int) -> None:
        """The storage changed its size: as on a GPU the new block is there before the old one is freed."""
        if self._ledger is not None:
            before = self._booking
            self.book(self._ledger, nbytes)
            if before is not None:
                self._ledger.give_back(before)

    def use_on_stream(self, stream: int) -> None:
        """Another stream works on the memory: it is not free before that stream has done so."""
        if self._booking is not None and self._ledger is not None:
            self._ledger.use_on_stream(self._booking, stream)

    def __del__(self) -> None:
        if self._booking is not None and self._ledger is not None:
            self._ledger.give_back(self._booking)


class QuantizedMemory(Memory):
    """Record of a quantized tensor on a virtual GPU, whose values are in real memory of the host.

    See Note [Quantized tensors].
    """

    __slots__ = ()

    @property
    def uncomputed(self) -> bool:
        """Whether its values follow from some that nobody computed."""
        return self.assumed


class Helper:
    """Mark of a meta tensor that C++ code made for itself while it worked on virtual tensors.

    Note [Helpers of composite code]
    Composite C++ operators copy the carrier's device: `where(c, x, 1.0)`, `one_hot`, the math path of
    attention make tensors with `device=meta`. A user's own meta tensors are made by the same operators. What
    tells them apart: a helper is consumed by the very call that made it, so frame and instruction are the
    same; then it belongs to the device it is used with. The frame is one below the dispatch modes of the
    script, which have a frame for each operator.
    """

    __slots__ = ("frame", "instruction", "made")

    def __init__(self, frame: int, instruction: int, made: Site | None) -> None:
        self.frame = frame
        self.instruction = instruction
        self.made = made

    def made_in(self, frame: FrameType) -> bool:
        """Whether the call that the frame is in made it."""
        owner = asker(frame)
        return self.frame == id(owner) and self.instruction == owner.f_lasti


def memory_of(tensor: torch.Tensor) -> Memory | None:
    """The record of a tensor's memory, or None.

    None is for memory that the machine never saw, and for a user's meta tensors.
    """
    try:
        record = storage_of(tensor)._sd
    except NotImplementedError:  # sparse tensors have no storage of their own
        record = record_of_parts(tensor)
    return record if isinstance(record, Memory) else None


def record_of_parts(tensor: torch.Tensor) -> Any:
    """What is known of the memory of a sparse tensor: that of its values."""
    parts = parts_of(tensor)
    return storage_of(parts[-1])._sd if parts else getattr(tensor, "_sd", None)


def device_of(tensor: torch.Tensor) -> torch.device:
    """Where the tensor is, as a script should see it."""
    record = memory_of(tensor)
    if record is not None:
        return record.device
    return META if raw_is_meta(tensor) else raw_device(tensor)


def is_virtual(tensor: torch.Tensor) -> bool:
    """Whether the tensor is a carrier: meta for C++, on a device of the machine for everyone else."""
    record = memory_of(tensor)
    return record is not None and record.virtual


def value_of(tensor: torch.Tensor, record: Memory) -> torch.Tensor | None:
    """A CPU tensor over the shadow with the same shape and strides, or None when the values are not known."""
    if record.shadow is None:
        return None
    return over(record.shadow, tensor)


def over(storage: torch.UntypedStorage, like: torch.Tensor) -> torch.Tensor:
    """A CPU tensor over `storage` with the geometry of `like`."""
    value = _empty(0, dtype=like.dtype, device="cpu")  # also inside `with torch.device(...)`
    value.set_(storage, like.storage_offset(), like.size(), like.stride())
    if like.is_conj():
        value = value.conj()
    if like.is_neg():
        value = torch._neg_view(value)
    return value


def assumed_values(like: torch.Tensor) -> torch.Tensor:
    """What unknown values read as."""
    if like.dtype.is_floating_point or like.dtype.is_complex:
        return plain.full(like.size(), ASSUMED_FLOAT, dtype=like.dtype, device="cpu")
    return plain.zeros(like.size(), dtype=like.dtype, device="cpu")


def held(tensors: Iterable[torch.Tensor]) -> int:
    """Bytes of the memory that dense tensors show, each place of an expanded one once.

    A tensor on the meta device that is no virtual one has no bytes.
    """
    return sum(
        min(tensor.numel() * tensor.element_size(), storage_of(tensor).nbytes())
        for tensor in tensors
        if tensor.layout is torch.strided and not (raw_is_meta(tensor) and memory_of(tensor) is None)
    )


def is_carrier(tensor: torch.Tensor) -> bool:
    """Whether the tensor is on meta for C++, also within a function mode of the script.

    Such a mode sends C getters on to the properties of the machine.
    """
    with as_torch():
        meta: bool = raw_is_meta(tensor)
        return meta


def carrier(size: Iterable[int], stride: Iterable[int], dtype: torch.dtype) -> torch.Tensor:
    """A meta tensor with that geometry and no record yet."""
    return _empty_strided(tuple(size), tuple(stride), dtype=dtype, device=META)


def use_on_stream(tensor: torch.Tensor, stream: Any) -> None:
    """`Tensor.record_stream`: the memory is not free before the stream has worked on it."""
    record = memory_of(tensor)
    if record is not None:
        record.use_on_stream(int(stream.stream_id))


def tensors_in(value: Any) -> Iterator[torch.Tensor]:
    """Tensors in an operator's result."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, (tuple, list)):
        for part in value:
            yield from tensors_in(part)


__all__ = [
    "ASSUMED_FLOAT",
    "CPU",
    "JOINED_SHARE",
    "VALUE_LIMIT",
    "Helper",
    "Memory",
    "as_torch",
    "assumed_values",
    "carrier",
    "device_of",
    "held",
    "is_carrier",
    "is_virtual",
    "memory_of",
    "over",
    "raw_data_ptr",
    "raw_device",
    "raw_is_meta",
    "record_of_parts",
    "storage_of",
    "tensors_in",
    "this_thread",
    "use_on_stream",
    "value_of",
]
