"""`torch.save` and `torch.load` on a virtual machine.

Must guarantee: a saved file is a normal torch file whose storages are tagged with their virtual devices, so
that plain torch reads it with `map_location="cpu"`; what is loaded to a virtual GPU and too large to hold
values is never read.

Note [Values that are not known]
Large virtual tensors have no values. They are saved as holes, which read as zeros and take no space in a
file; the file's record `samedevice_unknown` names them, so that a later load on a machine knows them as
assumed. Plain torch ignores that record.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
import torch.serialization

from samedevice.errors import UnsupportedFeatureError
from samedevice.runtime.checkpoints.mapped_files import Mapped, set_mapped_file_aside
from samedevice.runtime.engine import Engine
from samedevice.runtime.patching import Patch, With
from samedevice.runtime.state import CPU, VALUE_LIMIT, Decision, Memory, current_machine, is_virtual
from samedevice.runtime.tensors import host_bytes, known_bytes, virtual_storage
from samedevice.runtime.tracking import Tracker, warn_of_unknown
from samedevice.torch_versions.adapter import TORCH

Storage: Any = torch.UntypedStorage
_UNKNOWN_RECORD = "samedevice_unknown"


class _Writer:
    """A zip writer that leaves holes for unknown values.

    `target` is what the user told `torch.save` to write to.
    """

    def __init__(self, writer: Any, target: Any, engine: Engine) -> None:
        self._writer = writer
        self._engine = engine
        self._target = target
        self._unknown: list[str] = []
        self._storages = 0
        self._mapped: Mapped | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._writer, name)

    def write_record(self, name: str, data: Any, size: int) -> None:
        if not isinstance(data, Storage):
            self._writer.write_record(name, data, size)
            return
        self._storages += 1
        known = None if self._is_ghost(data) else known_bytes(data)
        if known is not None:
            if self._mapped is None:
                self._mapped = Mapped()
            self._mapped.check(known)
            self._writer.write_record(name, known, size)
        elif _takes_holes(self._target):
            self._writer.write_record_metadata(name, size)
        else:
            self._writer.write_record(name, host_bytes(data), size)
        if known is None or _assumed(data):
            self._unknown.append(name)

    def _is_ghost(self, storage: torch.UntypedStorage) -> bool:
        address = storage.data_ptr()
        ghosts = self._engine.transfers.ghosts
        return storage.nbytes() > VALUE_LIMIT and any(start <= address < end for start, end in ghosts)

    def write_end_of_file(self) -> None:
        if self._unknown:
            text = json.dumps(self._unknown)
            self._writer.write_record(_UNKNOWN_RECORD, text, len(text))
            warn_of_unknown(
                self._engine.tracker, len(self._unknown), self._storages, "the file that torch.save wrote"
            )
        self._writer.write_end_of_file()


def _takes_holes(target: Any) -> bool:
    """Whether a hole in the target takes no space: a file by name, or an open one."""
    if isinstance(target, (str, os.PathLike)):
        return True
    try:
        return bool(target.fileno() >= 0 and target.seekable())
    except (AttributeError, OSError):
        return False


def _assumed(storage: torch.UntypedStorage) -> bool:
    record = storage._sd  # type: ignore[attr-defined]
    return record.__class__ is Memory and record.assumed


class _Loaded:
    """What the zip reader returns, as far as `torch.load` looks at it."""

    def __init__(self, storage: torch.UntypedStorage) -> None:
        self._untyped_storage = storage

    def _typed_storage(self) -> _Loaded:
        return self


class _Reader:
    """A zip reader that reads large storages only when they stay on the host."""

    def __init__(self, reader: Any, path: str | None, tracker: Tracker) -> None:
        self._reader = reader
        self._path = path
        self._tracker = tracker
        self._whole: Any = None
        self._unknown: frozenset[str] = frozenset()
        if reader.has_record(_UNKNOWN_RECORD):
            self._unknown = frozenset(json.loads(reader.get_record(_UNKNOWN_RECORD)))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._reader, name)

    def read(self, name: str, size: int) -> torch.UntypedStorage:
        """The bytes of a storage, in memory of their own."""
        found: torch.UntypedStorage = (
            self._reader.get_storage_from_record(name, size, Storage)._typed_storage()._untyped_storage
        )
        return found

    def get_storage_from_record(self, name: str, size: int, kind: Any) -> Any:
        if name in self._unknown:
            if size > VALUE_LIMIT:
                return _Loaded(virtual_storage(self._tracker, size, CPU, self._tracker.site()))
            storage = self.read(name, size)
            storage._sd = Memory(CPU, virtual=False, made=self._tracker.site())  # type: ignore[attr-defined]
            storage._sd.assumed = True  # type: ignore[attr-defined]
            return _Loaded(storage)
        if size <= VALUE_LIMIT or self._path is None:
            return _Loaded(self.read(name, size))
        if self._whole is None:
            self._whole = Storage.from_file(self._path, False, Path(self._path).stat().st_size)
        start = self._reader.get_record_offset(name)
        storage = self._whole[start : start + size]
        storage._sd_unread = (self, name, size)
        return _Loaded(storage)


def _writing(original: Any, engine: Engine) -> Any:
    def open_writer(name_or_buffer: Any) -> Any:
        set_mapped_file_aside(name_or_buffer)
        opened = original(name_or_buffer)
        opened.file_like = _Writer(opened.file_like, name_or_buffer, engine)
        return opened

    return open_writer


def _letting_go(save: Callable[..., Any]) -> Callable[..., Any]:
    """Takes apart the class of pickler that each call of `torch.save` makes.

    A class is a cycle, and this one holds every storage that was saved. The collector would clear their
    attributes with it, although their tensors live on: these would no longer be on a GPU.
    """

    def letting_go(obj: Any, file: Any, pickle_module: Any, *args: Any, **kwargs: Any) -> Any:
        made: list[Any] = []

        class Pickler(pickle_module.Pickler):  # type: ignore[misc]  # the module is the caller's choice
            def __init_subclass__(cls, **options: Any) -> None:
                super().__init_subclass__(**options)
                made.append(cls)

        try:
            names = SimpleNamespace(Pickler=Pickler, dump=pickle_module.dump)
            return save(obj, file, names, *args, **kwargs)
        finally:
            for cls in made:
                del cls.persistent_id

    return letting_go


def _reading(open_reader: Any, tracker: Tracker) -> Any:
    class OpenReader(open_reader):  # type: ignore[misc]  # a class of torch, known at run time only
        def __init__(self, name_or_buffer: Any) -> None:
            super().__init__(name_or_buffer)
            self.file_like: Any
            path = getattr(name_or_buffer, "name", None)
            self.file_like = _Reader(self.file_like, path if isinstance(path, str) else None, tracker)

    return OpenReader


def _restoring(original: Any, tracker: Tracker) -> Any:
    def get_restore_location(map_location: Any) -> Any:
        inner = original(map_location)

        def restore(storage: Any, location: Any) -> Any:
            result = inner(storage, location)
            unread = storage.__dict__.pop("_sd_unread", None)
            if result is storage and unread is not None:
                reader, name, size = unread
                result = reader.read(name, size)
            memory = getattr(result, "_untyped_storage", result)
            if isinstance(memory, Storage) and memory.device.type != "meta":
                _note_loaded(tracker, memory)
            return result

        return restore

    return get_restore_location


def _pickling(reduce_ex: Any) -> Any:
    def reduce_tensor(self: torch.Tensor, protocol: Any) -> Any:
        if is_virtual(self) and (self.layout != torch.strided or self.is_quantized):
            kind = "quantized" if self.is_quantized else str(self.layout)
            text = f"Pickling a {kind} tensor on {self.device} is not supported on a virtual machine."
            raise UnsupportedFeatureError(text)
        return reduce_ex(self, protocol)

    return reduce_tensor


def _note_loaded(tracker: Tracker, storage: torch.UntypedStorage) -> None:
    """Loaded memory was made where `torch.load` was called, wherever it went on its way."""
    site = tracker.site()
    record = storage._sd  # type: ignore[attr-defined]
    if record.__class__ is Memory:
        record.made, record.moved = site, None
    else:
        record = storage._sd = Memory(CPU, virtual=False, made=site)  # type: ignore[attr-defined]
    record.decision = Decision("loaded", record.device, site)


def _tracker() -> Tracker:
    return current_machine().part(Tracker)


PATCHES = (
    Patch(
        "torch.serialization._open_zipfile_writer",
        With(lambda: current_machine().part(Engine), _writing),
        "a carrier has no bytes that C++ could write; what nobody knows becomes a hole of the file",
    ),
    *(
        Patch(
            f"torch.serialization.{name}",
            _letting_go,
            "a cycle would hold the storages that were saved, and take their records with it",
            when=lambda: TORCH.save_leaves_a_cycle,
        )
        for name in ("_save", "_legacy_save")
    ),
    Patch(
        "torch.serialization._open_zipfile_reader",
        With(_tracker, _reading),
        "what goes to a virtual GPU and is too large to hold values would be read all the same",
    ),
    Patch(
        "torch.serialization._get_restore_location",
        With(_tracker, _restoring),
        "loaded memory was made where `torch.load` was called, wherever it went on its way",
    ),
    Patch(
        "torch.Tensor.__reduce_ex__",
        _pickling,
        "torch would pickle the parts of a sparse tensor, whose values a carrier has not, and take a "
        "quantized one for one of the host",
    ),
)
