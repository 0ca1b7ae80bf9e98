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
import sys
import threading
import weakref
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import torch

from samedevice.errors import UnsupportedFeatureError
from samedevice.runtime.engine import HOST_LIMIT, Engine
from samedevice.runtime.patching import Patch, With
from samedevice.runtime.state import VALUE_LIMIT, current_machine, memory_of, value_of
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


def _known(engine: Engine, tensor: torch.Tensor) -> torch.Tensor | None:
    """The tensor on the host, with its values; None when nobody knows them."""
    record = memory_of(tensor)
    if _size(tensor) == 0:
        return torch.empty(tensor.shape, dtype=tensor.dtype, device="cpu")
    if record is not None and record.virtual:
        return value_of(tensor, record)
    return None if _size(tensor) > VALUE_LIMIT and engine.transfers.is_ghost(tensor) else tensor


def _refuse_large(size: int) -> None:
    if size > HOST_LIMIT:
        raise UnsupportedFeatureError(
            f"The values of {size / (1 << 20):.0f} MiB of tensors are not known on a virtual machine, and "
            "zeros in their place "
            "would take as much memory. Save to a file (safetensors.torch.save_file), which leaves holes."
        )


# -- releases from 0.8 on hand over addresses


_holes = _Holes()


def _by_address() -> bool:
    return hasattr(sys.modules["safetensors.torch"], "_to_ndarray")


def _array_or_hole(to_ndarray: Any, engine: Engine) -> Any:
    def to_ndarray_here(tensor: Any) -> Any:
        known = _known(engine, tensor)
        return (_holes.new(_size(tensor)), tensor) if known is None else to_ndarray(known)

    return to_ndarray_here


def _entry_at_address(spec: Any) -> _Entry:
    if _holes.holds(spec.data_ptr):
        return _Entry(spec.dtype, tuple(spec.shape), spec.data_len, None)
    data = (ctypes.c_ubyte * spec.data_len).from_address(spec.data_ptr) if spec.data_len else b""
    return _Entry(spec.dtype, tuple(spec.shape), spec.data_len, memoryview(data))


def _serialized_from_addresses(serialize: Any) -> Any:
    def serialize_here(specs: Mapping[str, Any], metadata: Any = None) -> Any:
        _refuse_large(sum(spec.data_len for spec in specs.values() if _holes.holds(spec.data_ptr)))
        return serialize(specs, metadata=metadata)

    return serialize_here


# -- those before collect the bytes of all tensors


def _bytes_or_absence(tobytes: Any, engine: Engine) -> Any:
    def tobytes_here(tensor: Any, *args: Any) -> Any:
        known = _known(engine, tensor)
        return _Absence(_size(tensor)) if known is None else tobytes(known, *args)

    return tobytes_here


def _entry_of_bytes(spec: Any) -> _Entry:
    types = sys.modules["safetensors.torch"]._TYPES
    codes = {str(dtype).removeprefix("torch."): code for code, dtype in types.items()}
    data, code = spec["data"], codes[spec["dtype"]]
    if isinstance(data, _Absence):
        return _Entry(code, tuple(spec["shape"]), data.size, None)
    return _Entry(code, tuple(spec["shape"]), len(data), memoryview(data))


def _serialized_from_bytes(serialize: Any) -> Any:
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

    return serialize_here


# -- both


def _serialized(original: Any) -> Any:
    return (_serialized_from_addresses if _by_address() else _serialized_from_bytes)(original)


def _file_writer(original: Any, engine: Engine) -> Callable[..., None]:
    """`serialize_file`, which leaves holes; a file without any is the library's own business."""
    entry = _entry_at_address if _by_address() else _entry_of_bytes

    def serialize_file(
        specs: Mapping[str, Any], filename: Any, metadata: Mapping[str, str] | None = None
    ) -> None:
        entries = {name: entry(spec) for name, spec in specs.items()}
        unknown = sum(one.data is None for one in entries.values())
        if not unknown:
            original(specs, filename, metadata=metadata)
            return
        warn_of_unknown(engine.tracker, unknown, len(entries), str(filename))
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


def holes_of(filename: str) -> list[tuple[int, int]]:
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


def _machine_engine() -> Engine:
    return current_machine().part(Engine)


_UNKNOWN = "the library would read the bytes of carriers by address; what nobody knows becomes a hole"
_MODULE = "safetensors.torch"
PATCHES = (
    Patch(
        f"{_MODULE}._to_ndarray",
        With(_machine_engine, _array_or_hole),
        _UNKNOWN,
        since="safetensors 0.8",
        package=_MODULE,
    ),
    Patch(
        f"{_MODULE}._tobytes",
        With(_machine_engine, _bytes_or_absence),
        _UNKNOWN,
        since="before safetensors 0.8",
        package=_MODULE,
    ),
    Patch(f"{_MODULE}.serialize_file", With(_machine_engine, _file_writer), _UNKNOWN, package=_MODULE),
    Patch(f"{_MODULE}.serialize", _serialized, _UNKNOWN, package=_MODULE),
)
