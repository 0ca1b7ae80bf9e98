"""`safetensors.safe_open` for virtual GPUs.

Must guarantee: a file is mapped and only the pages that somebody looks at are read. The library itself copies
each tensor through pinned memory to a GPU, by address, and a large virtual tensor's address has no memory
behind it.
"""

from __future__ import annotations

import re
from typing import Any

import torch

from samedevice.runtime.patching import Patch
from samedevice.runtime.state import Decision, Memory, current_machine, entered, storage_of
from samedevice.runtime.tracking import Tracker

_TORCH = ("pt", "torch", "pytorch")
_GPU = re.compile(r"cuda(?::(\d+))?")


def _gpu(device: Any) -> int | None:
    """Index of the GPU that the library understands by `device`; None for everything else."""
    if isinstance(device, int):
        return int(device)
    match = _GPU.fullmatch(device) if isinstance(device, str) else None
    return None if match is None else int(match[1] or 0)


class _Slice:
    """A tensor of the file that is read in parts."""

    def __init__(self, part: Any, place: Any) -> None:
        self._part = part
        self._place = place

    def __getitem__(self, index: Any) -> torch.Tensor:
        moved: torch.Tensor = self._place(self._part[index])
        return moved

    def __getattr__(self, name: str) -> Any:
        return getattr(self._part, name)


class _Opened:
    """A file whose tensors go to a virtual GPU."""

    def __init__(self, file: Any, index: int, tracker: Tracker) -> None:
        self._file = file
        self._index = index
        self._tracker = tracker

    def __enter__(self) -> _Opened:
        self._file.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._file.__exit__(*error)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def _place(self, tensor: torch.Tensor) -> torch.Tensor:
        moved = tensor.to(current_machine().device(self._index))
        record = storage_of(moved)._sd
        if record.__class__ is Memory:
            record.made, record.moved = self._tracker.site(), None
            record.decision = Decision("loaded", record.device, record.made)
        return moved

    def get_tensor(self, name: str) -> torch.Tensor:
        return self._place(self._file.get_tensor(name))

    def get_tensors(self) -> dict[str, torch.Tensor]:
        return {name: self.get_tensor(name) for name in self._file.keys()}

    def get_slice(self, name: str) -> _Slice:
        return _Slice(self._file.get_slice(name), self._place)


class _SafeOpen:
    """`safetensors.safe_open` on a machine."""

    original: Any = None

    def __new__(cls, filename: Any, framework: Any = None, device: Any = "cpu", **kwargs: Any) -> Any:
        given = () if framework is None else (framework,)
        index = _gpu(device)
        if not entered() or framework not in _TORCH:
            return cls.original(filename, *given, device=device, **kwargs)
        if "backend" in kwargs:
            kwargs["backend"] = "mmap"
        file = cls.original(
            filename, framework, device=device, **kwargs
        )  # raises for what the library refuses
        if index is None or index < 0:
            return file
        return _Opened(
            cls.original(filename, framework, device="cpu", **kwargs), index, current_machine().part(Tracker)
        )


_SafeOpen.__name__ = _SafeOpen.__qualname__ = "safe_open"
_SafeOpen.__module__ = "safetensors"


def _opening(original: Any) -> Any:
    if original is not _SafeOpen:
        _SafeOpen.original = original
    return _SafeOpen


PATCHES = (
    Patch(
        "safetensors.safe_open",
        _opening,
        "the library copies to a GPU by address, and a large virtual tensor's has no memory behind it",
        package="safetensors",
        copies="*",
    ),
)
