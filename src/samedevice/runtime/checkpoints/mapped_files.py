"""Memory that is mapped from a file, and files that are saved over it.

Note [Files under memory]
`torch.load(mmap=True)` and safetensors map a file: a page is read when a value of it is. Saving to the same
path cuts the file, and the kernel ends the process with SIGBUS at the next value that is read: in the writer,
when the same tensors are saved. torch does so on every machine. A virtual machine says so and goes on: the
old file keeps its bytes for whoever has mapped it, and the new one gets its name.
"""

from __future__ import annotations

import bisect
import os
import warnings
from pathlib import Path

import torch

_MAPS = Path("/proc/self/maps")
"""Linux alone tells what is mapped; elsewhere nothing is known of it."""

_Mapping = tuple[int, int, int, str]
"""First address, end, place in the file, and the file."""


def set_mapped_file_aside(target: object) -> None:
    """Take the name from a file that is mapped here and is about to be written anew."""
    if not isinstance(target, (str, os.PathLike)):
        return
    path = Path(os.path.realpath(os.fspath(target)))
    if path.is_file() and any(file == str(path) for *_, file in _mappings()):
        warnings.warn(
            f"samedevice: {path} is written while tensors are mapped from it (mmap=True). Without a virtual "
            "machine the process ends with a bus error as soon as one of them is read. Save to another file, "
            "or load without mmap.",
            RuntimeWarning,
            stacklevel=4,
        )
        path.unlink()


class Mapped:
    """What is mapped when it is made; asked for many storages."""

    def __init__(self) -> None:
        self._mappings = _mappings()

    def check(self, storage: torch.UntypedStorage) -> None:
        """Raises RuntimeError where the file below a storage was cut: reading it would end the process."""
        start, size = storage.data_ptr(), storage.nbytes()
        place = bisect.bisect_right(self._mappings, start, key=lambda mapping: mapping[0]) - 1
        if place < 0 or not size:
            return
        first, end, offset, file = self._mappings[place]
        if start >= end or not Path(file).is_file():
            return
        if Path(file).stat().st_size < offset + start - first + size:
            raise RuntimeError(
                f"{file} was cut or written anew while tensors were mapped from it (mmap=True): their values "
                "are gone, and reading them would end the process with a bus error."
            )


def _mappings() -> list[_Mapping]:
    """What is mapped from files now, by address."""
    try:
        lines = _MAPS.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:
        return []
    found: list[_Mapping] = []
    for line in lines:
        place, _, offset, _, inode, *name = line.split(maxsplit=5)
        if inode != "0" and name:
            first, _, end = place.partition("-")
            found.append((int(first, 16), int(end, 16), int(offset, 16), name[0]))
    return found
