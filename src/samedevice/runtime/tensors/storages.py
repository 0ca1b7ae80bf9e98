"""Storages of virtual tensors: their device, address, size, bytes and copies.

Must guarantee: a storage and the tensors over it agree about device and address, and the ledger follows the
storage's size.
"""

from __future__ import annotations

import contextlib
import functools
import os
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import torch

from samedevice.errors import UnsupportedFeatureError
from samedevice.provenance import Site
from samedevice.runtime.engine import HOST_LIMIT, Engine
from samedevice.runtime.patching import Constant, Patch, With
from samedevice.runtime.state import (
    CPU,
    META,
    VALUE_LIMIT,
    Decision,
    Memory,
    as_torch,
    carrier,
    current_machine,
    plain,
    raw_is_meta,
    storage_of,
    this_thread,
)
from samedevice.runtime.tensors.tensor import seen_device
from samedevice.runtime.tracking import Tracker

Storage: Any = torch.UntypedStorage
_Base: Any = torch._C.StorageBase  # torch's stub lacks most of its methods
_raw_device: Any = _Base.device.__get__
_base_set: Any = torch._C.TensorBase.set_

_NO_IPC = (
    "Handles of CUDA storages for other processes are not supported on a virtual machine. Send the tensor "
    "itself, through a queue or a pipe of torch.multiprocessing."
)


@contextlib.contextmanager
def as_engine() -> Iterator[None]:
    """Run torch as it is: no mode and no patched answer looks on."""
    with as_torch():
        yield


def memory_of_storage(storage: torch.UntypedStorage) -> Memory | None:
    """The record of virtual memory; None for real memory and for a user's meta storages."""
    record: Any = storage._sd  # type: ignore[attr-defined]
    return record if record.__class__ is Memory and record.virtual else None


def known_bytes(storage: torch.UntypedStorage) -> torch.UntypedStorage | None:
    """A CPU storage with the bytes; None when nobody knows them."""
    record = memory_of_storage(storage)
    return storage if record is None else record.shadow


def host_bytes(storage: torch.UntypedStorage, limit: int = HOST_LIMIT) -> torch.UntypedStorage:
    """A CPU storage with the bytes or, up to `limit` of them, zeros in their place."""
    known = known_bytes(storage)
    if known is not None:
        return known
    size = storage.nbytes()
    if size > limit:
        raise UnsupportedFeatureError(
            f"The values of this {size / (1 << 20):.0f} MiB storage are not known on a virtual machine, and "
            "it is too large to be written as zeros here. Save to a file by name (torch.save(obj, path)), "
            "which leaves a hole in their place."
        )
    return zeros(size)


def zeros(size: int) -> torch.UntypedStorage:
    """A CPU storage full of zeros."""
    with as_engine():
        made: torch.UntypedStorage = storage_of(plain.zeros(size, dtype=torch.uint8))
    return made


def virtual_storage(
    tracker: Tracker,
    size: int,
    device: torch.device,
    made: Site | None,
    moved: Site | None = None,
    decision: Decision | None = None,
) -> torch.UntypedStorage:
    """A new storage of `size` bytes on a device of the machine, without values yet."""
    with as_engine():
        tensor = carrier((size,), (1,), torch.uint8)
        storage: torch.UntypedStorage = storage_of(tensor)
        storage._sd = None  # type: ignore[attr-defined]
        tracker.adopt(tensor, device, made, moved=moved)
        storage._sd.decision = decision or Decision("created", device, made)  # type: ignore[attr-defined]
    return storage


def fill_from(target: torch.UntypedStorage, source: torch.UntypedStorage) -> None:
    """Give a virtual storage the values of another storage of the same size, where they are known and few."""
    record = memory_of_storage(target)
    assert record is not None, "the target is virtual"
    origin = source._sd  # type: ignore[attr-defined]
    record.assumed = origin.__class__ is Memory and origin.assumed
    known = known_bytes(source)
    if known is None or target.nbytes() > VALUE_LIMIT:
        record.shadow = None
        return
    if record.shadow is None:
        record.shadow = Storage(target.nbytes())
    _Base.copy_(record.shadow, known)  # into the bytes that are there: slices share them


def to_device(tracker: Tracker, storage: torch.UntypedStorage, device: torch.device) -> torch.UntypedStorage:
    """A copy of a storage on another device of the machine."""
    site = tracker.site()
    origin = storage._sd  # type: ignore[attr-defined]
    origin = origin if origin.__class__ is Memory else None
    decision = None if origin is None else origin.decision
    if storage.device != device:
        decision = tracker.moved(device, site, decision)
    made = origin.made if origin is not None and origin.made is not None else site
    moved = site if storage.device != device else (origin.moved if origin is not None else None)
    if device.type != "cpu":
        copied = virtual_storage(tracker, storage.nbytes(), device, made, moved, decision)
        fill_from(copied, storage)
        return copied
    known = known_bytes(storage)
    if known is None and storage.nbytes() > VALUE_LIMIT:
        return virtual_storage(tracker, storage.nbytes(), CPU, made, moved, decision)
    if known is None:
        real = zeros(storage.nbytes())
    else:
        real = Storage(known.nbytes())
        _Base.copy_(real, known)
    record = Memory(CPU, virtual=False, made=made, moved=moved)
    record.decision = decision
    record.assumed = known is None or (origin is not None and origin.assumed)
    real._sd = record  # type: ignore[attr-defined]
    return real


class _Storages:
    """What `torch.UntypedStorage` answers on one machine."""

    def __init__(self, engine: Engine) -> None:
        self._tracker = engine.tracker
        self._ghosts = engine.transfers.ghosts

    def new(self, cls: type[torch.UntypedStorage], *args: Any, **kwargs: Any) -> Any:
        device = kwargs.get("device")
        if this_thread.raw or device is None:
            return _Base.__new__(cls, *args, **kwargs)
        place = current_machine().device(device)
        if place.type != "cuda":
            return _Base.__new__(cls, *args, **{**kwargs, "device": place})
        options = {name: value for name, value in kwargs.items() if name != "device"}
        host = _Base.__new__(cls, *args, **options)
        made = virtual_storage(self._tracker, host.nbytes(), place, self._tracker.site())
        if args and not isinstance(args[0], int):
            fill_from(made, host)
        else:
            record = memory_of_storage(made)
            if record is not None and host.nbytes() <= VALUE_LIMIT:
                record.shadow = zeros(host.nbytes())
        return made

    def data_ptr(self, storage: torch.UntypedStorage) -> int:
        record = None if this_thread.raw else memory_of_storage(storage)
        if record is None:
            return int(_Base.data_ptr(storage))
        if storage.nbytes() == 0:
            return 0
        if record.device.type == "cpu" and record.shadow is not None:
            return int(_Base.data_ptr(record.shadow))
        return record.address

    def resize(self, storage: torch.UntypedStorage, size: int) -> torch.UntypedStorage:
        record = None if this_thread.raw else memory_of_storage(storage)
        before = storage.nbytes()
        if record is None or size == before:
            _Base.resize_(storage, size)
            return storage
        # A record of its own for the new block: the old one's death is the free, after the allocation as in
        # CUDA.
        twin = virtual_storage(self._tracker, size, record.device, record.made, record.moved, record.decision)
        fresh = memory_of_storage(twin)
        assert fresh is not None, "the twin is virtual"
        _Base.resize_(storage, size)
        fresh.assumed = record.assumed
        fresh.pinned = record.pinned
        if size == 0:
            fresh.shadow = Storage(0)
            fresh.address = 0
        elif size <= VALUE_LIMIT and (before == 0 or record.shadow is not None):
            fresh.shadow = zeros(size)
            _copy_bytes(fresh.shadow, record.shadow, min(before, size))
        fresh.blank = before == 0 and fresh.shadow is None and record.device.type == "cuda"
        storage._sd = fresh  # type: ignore[attr-defined]
        return storage

    def copy(
        self, storage: torch.UntypedStorage, source: Any, non_blocking: bool | None = None
    ) -> torch.UntypedStorage:
        source = getattr(source, "_untyped_storage", source)
        _check_data(source)
        target_record, source_record = memory_of_storage(storage), memory_of_storage(source)
        if this_thread.raw or (target_record is None and source_record is None):
            _Base.copy_(storage, source, bool(non_blocking))
            return storage
        if storage.nbytes() != source.nbytes():
            raise RuntimeError(
                f"size does not match, self was {storage.nbytes()} bytes but src was {source.nbytes()} bytes"
            )
        if target_record is not None:
            fill_from(storage, source)
            return storage
        known = known_bytes(source)
        _Base.copy_(storage, zeros(source.nbytes()) if known is None else known)
        return storage

    def to(
        self, storage: torch.UntypedStorage, *, device: Any, non_blocking: bool = False
    ) -> torch.UntypedStorage:
        place = current_machine().device(device)
        _check_data(storage)
        if place.type not in ("cpu", "cuda") or (place.type == "cpu" and storage._sd is None):  # type: ignore[attr-defined]
            moved: torch.UntypedStorage = _original["to"](storage, device=place, non_blocking=non_blocking)
            return moved
        if storage.device == place:
            return storage
        moved = to_device(self._tracker, storage, place)
        if place.type == "cpu" and non_blocking:
            moved._sd.pinned = True  # type: ignore[attr-defined]
        return moved

    def cuda(
        self, storage: torch.UntypedStorage, device: Any = None, non_blocking: bool = False
    ) -> torch.UntypedStorage:
        return self.to(storage, device=current_machine().device(device), non_blocking=non_blocking)

    def cpu(self, storage: torch.UntypedStorage) -> torch.UntypedStorage:
        return self.to(storage, device=CPU)

    def clone(self, storage: torch.UntypedStorage) -> torch.UntypedStorage:
        record = memory_of_storage(storage)
        if record is None:
            copied: torch.UntypedStorage = _original["clone"](storage)
            return copied
        copied = virtual_storage(self._tracker, storage.nbytes(), record.device, self._tracker.site())
        fill_from(copied, storage)
        return copied

    def fill(self, storage: torch.UntypedStorage, value: Any) -> torch.UntypedStorage:
        record = memory_of_storage(storage)
        if record is None:
            _Base.fill_(storage, value)
            return storage
        record.assumed = False
        if storage.nbytes() <= VALUE_LIMIT:
            if record.shadow is None:
                record.shadow = Storage(storage.nbytes())
            _Base.fill_(record.shadow, value)
        else:
            record.shadow = None
        return storage

    def getitem(self, storage: torch.UntypedStorage, index: Any) -> Any:
        record = memory_of_storage(storage)
        if record is None:
            # `torch.asarray(storage)` looks at the first byte, which is a page to load for each tensor of a
            # checkpoint.
            if self._ghosts and isinstance(index, int) and self._is_ghost(storage):
                return range(storage.nbytes())[index] * 0
            return _original["__getitem__"](storage, index)
        if isinstance(index, slice):
            return self._part(storage, record, index)
        if record.shadow is not None:
            return _original["__getitem__"](record.shadow, index)
        return range(storage.nbytes())[index] * 0

    def _part(self, storage: torch.UntypedStorage, record: Memory, index: slice) -> torch.UntypedStorage:
        """A slice is a storage over the same bytes."""
        start, stop, step = index.indices(storage.nbytes())
        if step != 1:
            raise RuntimeError(f"Trying to slice with a step of {step}, but only a step of 1 is supported")
        size = max(stop - start, 0)
        with as_engine():
            part: torch.UntypedStorage = storage_of(carrier((size,), (1,), torch.uint8))
        own = Memory(
            record.device, virtual=True, made=record.made, moved=record.moved
        )  # it is no allocation: nothing is booked
        own.assumed, own.address = record.assumed, record.address + start
        own.decision = record.decision
        if record.shadow is not None:
            own.shadow = _original["__getitem__"](record.shadow, slice(start, start + size))
        record.parts = [*(record.parts or ()), weakref.ref(own)]
        part._sd = own  # type: ignore[attr-defined]
        return part

    def _is_ghost(self, storage: torch.UntypedStorage) -> bool:
        address = _Base.data_ptr(storage)
        return any(start <= address < end for start, end in self._ghosts)

    def setitem(self, storage: torch.UntypedStorage, index: Any, value: Any) -> None:
        record = memory_of_storage(storage)
        if record is None:
            _Base.__setitem__(storage, index, value)
        elif record.shadow is not None:
            _Base.__setitem__(record.shadow, index, value)

    def is_shared(self, storage: torch.UntypedStorage) -> bool:
        if storage.device.type == "cuda":
            return True
        own = known_bytes(storage)
        return own is not None and bool(_Base.is_shared(own))

    def share_memory(self, storage: torch.UntypedStorage, *args: Any, **kwargs: Any) -> torch.UntypedStorage:
        record = memory_of_storage(storage)
        if record is None:
            _original["share_memory_"](storage, *args, **kwargs)
        elif record.device.type == "cpu":
            _original["share_memory_"](_real_bytes(storage, record), *args, **kwargs)
        return storage

    def write_file(
        self, storage: torch.UntypedStorage, file: Any, is_real_file: bool, save_size: bool, width: int
    ) -> None:
        if memory_of_storage(storage) is not None and is_real_file and known_bytes(storage) is None:
            _write_hole(storage.nbytes(), file, save_size, width)
            return
        _Base._write_file(host_bytes(storage), file, is_real_file, save_size, width)

    def set_from_file(
        self, storage: torch.UntypedStorage, file: Any, offset: Any, is_real_file: bool, width: int
    ) -> Any:
        record = memory_of_storage(storage)
        if record is None:
            return _Base._set_from_file(storage, file, offset, is_real_file, width)
        if offset is not None:
            file.seek(offset)
        size = int.from_bytes(file.read(8), "little") * width
        if size != storage.nbytes():
            raise RuntimeError(f"storage has wrong byte size: expected {storage.nbytes()} got {size}")
        if size > VALUE_LIMIT:
            file.seek(size, os.SEEK_CUR)
            record.shadow = None
        else:
            record.shadow = Storage(size)
            if size:
                with as_engine():
                    record.shadow.copy_(
                        storage_of(torch.frombuffer(bytearray(file.read(size)), dtype=torch.uint8))
                    )
        return storage


def _sharing(name: str, original: Any) -> Callable[..., Any]:
    @functools.wraps(original)
    def share(storage: torch.UntypedStorage, *args: Any, **kwargs: Any) -> Any:
        record = memory_of_storage(storage)
        if name == "_share_cuda_" and storage.device.type != "cuda":
            raise RuntimeError("_share_cuda_: only available on CUDA")
        if record is None:
            return original(storage, *args, **kwargs)
        if record.device.type != "cpu":
            raise UnsupportedFeatureError(_NO_IPC)
        return original(_real_bytes(storage, record), *args, **kwargs)

    return share


def _real_bytes(storage: torch.UntypedStorage, record: Memory) -> torch.UntypedStorage:
    """The bytes of a large host storage, from now on also its own.

    Another process can only get memory that is there.
    """
    if record.shadow is None:
        record.shadow = zeros(storage.nbytes())
        record.assumed = True
    return record.shadow


def _check_data(storage: torch.UntypedStorage) -> None:
    if not this_thread.raw and memory_of_storage(storage) is None and _raw_device(storage).type == "meta":
        raise NotImplementedError("Cannot copy out of meta tensor; no data!")


def _copy_bytes(target: torch.UntypedStorage, source: torch.UntypedStorage | None, size: int) -> None:
    if source is not None and size:
        _Base.copy_(target[:size], source[:size])


def _write_hole(size: int, file: Any, save_size: bool, width: int) -> None:
    """What the storage's own writer would write, with a hole in place of the bytes."""
    if save_size:
        file.write((size // width).to_bytes(8, "little"))
    if size:
        file.seek(size - 1, os.SEEK_CUR)
        file.write(b"\0")
    file.flush()


def set_storage(self: torch.Tensor, source: Any = None, *args: Any, **kwargs: Any) -> torch.Tensor:
    """`Tensor.set_`.

    C++ cannot tell virtual devices apart, nor a host tensor without values from one on a GPU.
    """
    if source is None and "source" in kwargs:
        source = kwargs.pop("source")
    given = () if source is None else (source,)
    if this_thread.raw or source is None:
        changed: torch.Tensor = _base_set(self, *given, *args, **kwargs)
        return changed
    if isinstance(source, torch.Tensor):
        there, meta = seen_device(source), raw_is_meta(source)
    else:
        storage = getattr(source, "_untyped_storage", source)
        there, meta = storage.device, _raw_device(storage).type == "meta"
    here = seen_device(self)
    if here != there:
        raise RuntimeError(
            f'Attempted to set the storage of a tensor on device "{here}" to a storage on different device '
            f'"{there}".  '
            "This is no longer allowed; the devices must match."
        )
    if meta != raw_is_meta(self):
        with as_engine(), torch.no_grad():
            twin = torch.empty(0, dtype=self.dtype, device=META if meta else CPU)
            torch._C._swap_tensor_impl(self, twin)
    changed = _base_set(self, *given, *args, **kwargs)
    return changed


_original: dict[str, Any] = {
    name: getattr(Storage, name) for name in ("to", "clone", "__getitem__", "share_memory_")
}


def _storages() -> _Storages:
    return _Storages(current_machine().part(Engine))


def _constructor(original: Any, storages: _Storages) -> Any:
    return staticmethod(storages.new)


def _answering(answer: Callable[..., Any]) -> With:
    @functools.wraps(answer)
    def make(original: Any, storages: _Storages) -> Callable[..., Any]:
        @functools.wraps(original, updated=())
        def method(self: torch.UntypedStorage, *args: Any, **kwargs: Any) -> Any:
            return answer(storages, self, *args, **kwargs)

        return method

    return With(_storages, make)


_BYTES = "C++ knows neither the device nor the bytes of a carrier's storage"
_SHARED = "memory on a GPU counts as shared, and another process can get only memory that is there"
_FILES = "a file gets the bytes that are known and holes for the others, and a large one is not read"
PATCHES = (
    Patch(
        "torch.UntypedStorage.__new__", With(_storages, _constructor), "C++ makes no memory on a virtual GPU"
    ),
    *(
        Patch(f"torch.UntypedStorage.{name}", _answering(answer), why)
        for name, answer, why in (
            (
                "data_ptr",
                _Storages.data_ptr,
                "libraries find shared memory by address",
            ),
            ("resize_", _Storages.resize, "the ledger follows the size of a storage"),
            ("copy_", _Storages.copy, _BYTES),
            ("to", _Storages.to, _BYTES),
            ("cuda", _Storages.cuda, _BYTES),
            ("cpu", _Storages.cpu, _BYTES),
            ("clone", _Storages.clone, _BYTES),
            ("fill_", _Storages.fill, _BYTES),
            ("__getitem__", _Storages.getitem, _BYTES),
            ("__setitem__", _Storages.setitem, _BYTES),
            ("is_shared", _Storages.is_shared, _SHARED),
            ("share_memory_", _Storages.share_memory, _SHARED),
            ("_write_file", _Storages.write_file, _FILES),
            ("_set_from_file", _Storages.set_from_file, _FILES),
        )
    ),
    *(
        Patch(f"torch.UntypedStorage.{name}", functools.partial(_sharing, name), _SHARED)
        for name in ("_share_cuda_", "_share_fd_cpu_", "_share_filename_cpu_")
    ),
    Patch(
        "torch.Tensor.set_",
        Constant(set_storage),
        "C++ tells neither virtual devices apart, nor a host tensor without values from one on a GPU",
    ),
)
