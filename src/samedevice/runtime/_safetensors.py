"""Saving virtual tensors with safetensors.

Must guarantee: values that are known are written as they are; unknown ones become holes of the file, which read as zeros, so that
a model of any size is saved in no time and space. Loading needs nothing here: the library moves tensors with `Tensor.to`.
"""

from __future__ import annotations

import ctypes
import json
import mmap
import os
import threading
import weakref
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

from samedevice.errors import UnsupportedFeatureError
from samedevice.runtime._books import Books
from samedevice.runtime._imports import when_imported
from samedevice.runtime._memory import memory_of, value_of
from samedevice.runtime._patches import Patches
from samedevice.runtime._serialization import warn_of_unknown
from samedevice.runtime._transfers import HOST_LIMIT

_METADATA_KEY = "samedevice"


class _Holes:
    """Addresses that stand for unknown values while a file is written."""

    def __init__(self) -> None:
        self._sizes: dict[int, int] = {}
        self._lock = threading.Lock()

    def new(self, size: int) -> Any:
        """An object with numpy's `nbytes` and `ctypes.data`; the address is mapped, reads as zeros and takes no memory."""
        if hasattr(mmap, "MAP_PRIVATE"):
            pages = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, prot=mmap.PROT_READ)
        else:
            pages = mmap.mmap(-1, size, access=mmap.ACCESS_READ)
        import numpy as np

        array = np.frombuffer(pages, dtype=np.uint8)
        address = int(array.ctypes.data)
        hole = SimpleNamespace(nbytes=size, ctypes=SimpleNamespace(data=address), array=array)
        with self._lock:
            self._sizes[address] = size
        weakref.finalize(hole, self._sizes.pop, address, None).atexit = False
        return hole

    def holds(self, address: int) -> bool:
        return address in self._sizes


def install_safetensors(patches: Patches, books: Books) -> None:
    """Replace how `safetensors.torch` reads a tensor's bytes and writes a file."""
    when_imported(patches, {"safetensors.torch": lambda module: _patch(patches, books, module)})


def _patch(patches: Patches, books: Books, module: ModuleType) -> None:
    if not hasattr(module, "_to_ndarray") or not hasattr(module, "_flatten_as_ptr"):
        _patch_older(patches, module)
        return
    holes = _Holes()
    to_ndarray: Any = module._to_ndarray
    serialize_file: Any = module.serialize_file
    serialize: Any = module.serialize

    def to_ndarray_here(tensor: Any) -> Any:
        record = memory_of(tensor)
        if record is None or not record.virtual:
            return to_ndarray(tensor)
        value = value_of(tensor, record)
        if value is not None:
            return to_ndarray(value)
        size = tensor.numel() * tensor.element_size()
        return (holes.new(size), tensor) if size else to_ndarray(tensor)

    def serialize_file_here(specs: Mapping[str, Any], filename: Any, metadata: Mapping[str, str] | None = None) -> None:
        unknown = {name for name, spec in specs.items() if holes.holds(spec.data_ptr)}
        if not unknown:
            serialize_file(specs, filename, metadata=metadata)
            return
        warn_of_unknown(books, len(unknown), len(specs), str(filename))
        _write(Path(filename), specs, metadata or {}, unknown)

    def serialize_here(specs: Mapping[str, Any], metadata: Any = None) -> Any:
        _refuse_large(sum(spec.data_len for spec in specs.values() if holes.holds(spec.data_ptr)))
        return serialize(specs, metadata=metadata)

    patches.attribute(module, "_to_ndarray", to_ndarray_here)
    patches.attribute(module, "serialize_file", serialize_file_here)
    patches.attribute(module, "serialize", serialize_here)


def _patch_older(patches: Patches, module: ModuleType) -> None:
    """Releases before 0.8 collect the bytes of all tensors in memory."""
    tobytes: Any = module._tobytes

    def tobytes_here(tensor: Any, *args: Any) -> Any:
        record = memory_of(tensor)
        if record is None or not record.virtual:
            return tobytes(tensor, *args)
        value = value_of(tensor, record)
        if value is not None:
            return tobytes(value, *args)
        size = tensor.numel() * tensor.element_size()
        _refuse_large(size)
        return bytes(size)

    patches.attribute(module, "_tobytes", tobytes_here)


def _refuse_large(size: int) -> None:
    if size > HOST_LIMIT:
        raise UnsupportedFeatureError(
            f"The values of {size / (1 << 20):.0f} MiB of tensors are not known on a virtual machine, and zeros in their place "
            "would take as much memory. Save to a file with safetensors 0.8 or later, which leaves a hole, or leave saving out."
        )


def _write(path: Path, specs: Mapping[str, Any], metadata: Mapping[str, str], unknown: set[str]) -> None:
    """The library's file format, in its order of tensors, with holes."""
    # Wider types first, then by name: each tensor is then aligned.
    names = sorted(specs, key=lambda name: (-_width(specs[name]), name))
    note = f"a virtual machine wrote zeros for {len(unknown)} of {len(specs)} tensors, whose values it does not know"
    header: dict[str, Any] = {"__metadata__": {**metadata, _METADATA_KEY: note}}
    end = 0
    for name in names:
        spec = specs[name]
        start, end = end, end + spec.data_len
        header[name] = {"dtype": spec.dtype, "shape": list(spec.shape), "data_offsets": [start, end]}
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little"))
        file.write(text)
        for name in names:
            spec = specs[name]
            if name in unknown:
                file.seek(spec.data_len, os.SEEK_CUR)
            elif spec.data_len:
                file.write(memoryview((ctypes.c_ubyte * spec.data_len).from_address(spec.data_ptr)))
        file.truncate(8 + len(text) + end)


def _width(spec: Any) -> float:
    count = 1
    for size in spec.shape:
        count *= size
    return float(spec.data_len / count) if count else 0.0
