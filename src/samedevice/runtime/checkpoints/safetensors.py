"""Saving virtual tensors with safetensors.

Must guarantee: values that are known are written as they are; unknown ones become holes of the file, which
read as zeros, so that a model of any size is saved in no time and space; loaded on a machine, the holes,
which the metadata name, are ghosts.
"""

from __future__ import annotations

import ctypes
import json
import math
import mmap
import os
import threading
import weakref
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, NamedTuple

import torch

from samedevice.errors import UnsupportedFeatureError
from samedevice.runtime.engine import HOST_LIMIT, Engine
from samedevice.runtime.patching import Patches, when_imported
from samedevice.runtime.state import VALUE_LIMIT, memory_of, value_of
from samedevice.runtime.tracking import warn_of_unknown

_NOTE, _RANGES = "samedevice", "samedevice_holes"
_PEEK = 4096
"""Bytes of a header in which our metadata, which come first, are looked for."""


class _Hole:
    """What `safetensors.torch` asks of the numpy array of a tensor's bytes."""

    def __init__(self, array: Any) -> None:
        self.array = array
        self.nbytes = int(array.nbytes)
        self.ctypes = SimpleNamespace(data=int(array.ctypes.data))


class _Holes:
    """Addresses that stand for unknown values while a file is written."""

    def __init__(self) -> None:
        self._sizes: dict[int, int] = {}
        self._lock = threading.Lock()

    def new(self, size: int) -> _Hole:
        """A hole of that size; its address is mapped, reads as zeros and takes no memory."""
        if hasattr(mmap, "MAP_PRIVATE"):
            pages = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, prot=mmap.PROT_READ)
        else:
            pages = mmap.mmap(-1, size, access=mmap.ACCESS_READ)
        import numpy as np

        hole = _Hole(np.frombuffer(pages, dtype=np.uint8))
        address = hole.ctypes.data
        with self._lock:
            self._sizes[address] = size
        weakref.finalize(hole, self._sizes.pop, address, None).atexit = False
        return hole

    def holds(self, address: int) -> bool:
        return address in self._sizes


def install_safetensors(patches: Patches, machine_engine: Engine) -> None:
    """Replace how `safetensors.torch` reads a tensor's bytes and writes a file."""
    when_imported(patches, {"safetensors.torch": lambda module: _patch(patches, machine_engine, module)})
    original: Any = torch.UntypedStorage.from_file
    ghosts = machine_engine.transfers.ghosts

    def from_file(filename: Any, *args: Any, **kwargs: Any) -> torch.UntypedStorage:
        storage: torch.UntypedStorage = original(filename, *args, **kwargs)
        start = storage.data_ptr()
        ghosts.extend((start + first, start + last) for first, last in _holes_of(str(filename)))
        return storage

    patches.attribute(torch.UntypedStorage, "from_file", staticmethod(from_file))


def _patch(patches: Patches, machine_engine: Engine, module: ModuleType) -> None:
    if not hasattr(module, "_to_ndarray") or not hasattr(module, "_flatten_as_ptr"):
        _patch_older(patches, machine_engine, module)
        return
    holes = _Holes()
    to_ndarray: Any = module._to_ndarray
    serialize_file: Any = module.serialize_file
    serialize: Any = module.serialize

    def to_ndarray_here(tensor: Any) -> Any:
        known = _known(machine_engine, tensor)
        return (holes.new(_size(tensor)), tensor) if known is None else to_ndarray(known)

    def entry(spec: Any) -> _Entry:
        if holes.holds(spec.data_ptr):
            return _Entry(spec.dtype, tuple(spec.shape), spec.data_len, None)
        data = (ctypes.c_ubyte * spec.data_len).from_address(spec.data_ptr) if spec.data_len else b""
        return _Entry(spec.dtype, tuple(spec.shape), spec.data_len, memoryview(data))

    def serialize_here(specs: Mapping[str, Any], metadata: Any = None) -> Any:
        _refuse_large(sum(spec.data_len for spec in specs.values() if holes.holds(spec.data_ptr)))
        return serialize(specs, metadata=metadata)

    patches.attribute(module, "_to_ndarray", to_ndarray_here)
    patches.attribute(module, "serialize_file", _file_writer(machine_engine, serialize_file, entry))
    patches.attribute(module, "serialize", serialize_here)


def _patch_older(patches: Patches, machine_engine: Engine, module: ModuleType) -> None:
    """Releases before 0.8 collect the bytes of all tensors."""
    tobytes: Any = module._tobytes
    serialize_file: Any = module.serialize_file
    serialize: Any = module.serialize
    codes = {str(dtype).removeprefix("torch."): code for code, dtype in module._TYPES.items()}

    def tobytes_here(tensor: Any, *args: Any) -> Any:
        known = _known(machine_engine, tensor)
        return _Absence(_size(tensor)) if known is None else tobytes(known, *args)

    def entry(spec: Any) -> _Entry:
        data = spec["data"]
        if isinstance(data, _Absence):
            return _Entry(codes[spec["dtype"]], tuple(spec["shape"]), data.size, None)
        return _Entry(codes[spec["dtype"]], tuple(spec["shape"]), len(data), memoryview(data))

    def serialize_here(specs: Mapping[str, Any], metadata: Any = None) -> Any:
        absent = {
            name: spec["data"].size for name, spec in specs.items() if isinstance(spec["data"], _Absence)
        }
        _refuse_large(sum(absent.values()))
        filled = {
            name: {**spec, "data": bytes(absent[name])} if name in absent else spec
            for name, spec in specs.items()
        }
        return serialize(filled, metadata=metadata)

    patches.attribute(module, "_tobytes", tobytes_here)
    patches.attribute(module, "serialize_file", _file_writer(machine_engine, serialize_file, entry))
    patches.attribute(module, "serialize", serialize_here)


class _Absence:
    """In place of a tensor's bytes, which nobody knows."""

    def __init__(self, size: int) -> None:
        self.size = size


class _Entry(NamedTuple):
    dtype: str
    """The file format's name of the type."""
    shape: tuple[int, ...]
    size: int
    data: memoryview | None
    """None leaves a hole."""


def _size(tensor: torch.Tensor) -> int:
    return tensor.numel() * tensor.element_size()


def _known(machine_engine: Engine, tensor: torch.Tensor) -> torch.Tensor | None:
    """The tensor on the host, with its values; None when nobody knows them."""
    record = memory_of(tensor)
    if _size(tensor) == 0:
        return torch.empty(tensor.shape, dtype=tensor.dtype, device="cpu")
    if record is not None and record.virtual:
        return value_of(tensor, record)
    return None if _size(tensor) > VALUE_LIMIT and machine_engine.transfers.is_ghost(tensor) else tensor


def _refuse_large(size: int) -> None:
    if size > HOST_LIMIT:
        raise UnsupportedFeatureError(
            f"The values of {size / (1 << 20):.0f} MiB of tensors are not known on a virtual machine, and "
            "zeros in their place "
            "would take as much memory. Save to a file (safetensors.torch.save_file), which leaves holes."
        )


def _file_writer(
    machine_engine: Engine, original: Any, entry: Callable[[Any], _Entry]
) -> Callable[..., None]:
    """`serialize_file`, which leaves holes; a file without any is the library's own business."""

    def serialize_file(
        specs: Mapping[str, Any], filename: Any, metadata: Mapping[str, str] | None = None
    ) -> None:
        entries = {name: entry(spec) for name, spec in specs.items()}
        unknown = sum(one.data is None for one in entries.values())
        if not unknown:
            original(specs, filename, metadata=metadata)
            return
        warn_of_unknown(machine_engine.books, unknown, len(entries), str(filename))
        note = (
            f"a virtual machine wrote zeros for {unknown} of {len(entries)} tensors, whose values it does "
            "not know"
        )
        _write(Path(filename), entries, {_NOTE: note}, metadata or {})

    return serialize_file


def _write(
    path: Path, entries: Mapping[str, _Entry], note: Mapping[str, str], metadata: Mapping[str, str]
) -> None:
    """The library's file format, in its order of tensors, with holes."""
    # Wider types first, then by name: each tensor is then aligned.
    names = sorted(entries, key=lambda name: (-_width(entries[name]), name))
    header: dict[str, Any] = {}
    holes: list[list[int]] = []
    end = 0
    for name in names:
        one = entries[name]
        start, end = end, end + one.size
        if one.data is None and holes and holes[-1][1] == start:
            holes[-1][1] = end
        elif one.data is None:
            holes.append([start, end])
        header[name] = {"dtype": one.dtype, "shape": list(one.shape), "data_offsets": [start, end]}
    header = {"__metadata__": {**note, _RANGES: json.dumps(holes), **metadata}, **header}
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little"))
        file.write(text)
        for name in names:
            one = entries[name]
            if one.data is None:
                file.seek(one.size, os.SEEK_CUR)
            else:
                file.write(one.data)
        file.truncate(8 + len(text) + end)


def _width(entry: _Entry) -> float:
    count = math.prod(entry.shape)
    return entry.size / count if count else 0.0


def _holes_of(filename: str) -> list[tuple[int, int]]:
    """Where in a file a virtual machine left holes, from the file's start."""
    if not filename.endswith(".safetensors"):
        return []
    with Path(filename).open("rb") as file:
        size = int.from_bytes(file.read(8), "little")
        text = file.read(min(size, _PEEK))
        if f'"{_NOTE}"'.encode() not in text:
            return []
        text += file.read(size - len(text))
    metadata = json.loads(text)["__metadata__"]
    return [(8 + size + first, 8 + size + last) for first, last in json.loads(metadata[_RANGES])]
