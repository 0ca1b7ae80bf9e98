"""The workspaces of cuBLAS and cuBLASLt, which torch takes from its caching allocator and keeps.

Note [Workspaces of cuBLAS]
Each thread has a cuBLAS handle for each GPU, and each handle a workspace for each stream that it works on,
from the first matrix product on; products with a bias go to cuBLASLt, which has a workspace of its own. A
handle goes back to the pool when its thread ends, with its workspaces. Autograd runs backward in a thread of
its own for each GPU; here it runs in the caller's, so the running node tells. Until 2.6 torch took cuBLASLt's
workspace for each call. Source: `aten/src/ATen/cuda/CublasHandlePool.cpp` and `CUDABlas.cpp`; recorded on an
H100 with torch 2.11.
"""

from __future__ import annotations

import os
import re
import threading
import warnings
from collections.abc import Callable

import torch

from samedevice.machines import blas_workspace
from samedevice.runtime.state import MachineState, Memory, current_machine
from samedevice.torch_versions.adapter import RELEASE

_AUTOGRAD = -1
"""Handle of autograd's thread of a GPU."""
_LT_KEEPS = RELEASE >= (2, 7)
_LT_KIB = 1024
_PAIRS = re.compile(r":([0-9]+):([0-9]+)")

Book = Callable[[Memory, int, int], None]
"""Enters memory into the ledger of a GPU."""


class _Window:
    """The handles of one thread by GPU; they go back when it ends."""

    def __init__(self, free: dict[int, list[int]], made: dict[int, int]) -> None:
        self._free = free
        self._made = made
        self._held: dict[int, int] = {}

    def handle(self, index: int) -> int:
        """This thread's handle for a GPU."""
        held = self._held.get(index)
        if held is None:
            free = self._free.setdefault(index, [])
            held = free.pop() if free else self._made.get(index, 0)
            self._made[index] = max(self._made.get(index, 0), held + 1)
            self._held[index] = held
        return held

    def __del__(self) -> None:
        for index, handle in self._held.items():
            self._free[index].append(handle)


class BlasWorkspaces:
    """Those of one machine. See Note [Workspaces of cuBLAS]."""

    def __init__(self, state: MachineState) -> None:
        self._gpu = state.gpu
        self._ledger = state.ledger
        self._held: dict[tuple[int, int, int, bool], Memory] = {}
        self._free: dict[int, list[int]] = {}
        self._made: dict[int, int] = {}
        self._local = threading.local()
        self.chosen: dict[bool, int] = {}
        """Bytes that a script set, of cuBLASLt and of cuBLAS."""

    def use(self, index: int, book: Book, *, light: bool) -> None:
        """A product runs on a GPU, with a bias by cuBLASLt if it is `light`."""
        if torch._C._current_autograd_node() is not None:
            handle = _AUTOGRAD
        else:
            try:
                window = self._local.window
            except AttributeError:
                window = self._local.window = _Window(self._free, self._made)
            handle = window.handle(index)
        stream = self._ledger(index).stream
        self._keep((index, handle, stream, False), book)  # Lt's handle is cuBLAS's
        if light:
            self._keep((index, handle, stream, True), book)
            if not _LT_KEEPS:
                del self._held[index, handle, stream, True]

    def _keep(self, key: tuple[int, int, int, bool], book: Book) -> None:
        held = self._held.get(key)
        if held is not None and (not self.chosen or held.booked >= self.size(key[0], light=key[3])):
            return
        made = Memory(torch.device("cuda", key[0]), virtual=True)
        book(made, key[0], self.size(key[0], light=key[3]))
        self._held[key] = made

    def size(self, index: int, *, light: bool) -> int:
        """Bytes of the next workspace."""
        chosen = self.chosen.get(light)
        if chosen is not None:
            return chosen
        return _light_bytes() if light else _configured(blas_workspace(self._gpu(index)))

    def clear(self) -> None:
        """Give all workspaces back."""
        self._held.clear()


def _configured(default: int) -> int:
    text = os.environ.get("CUBLAS_WORKSPACE_CONFIG")
    if text is None:
        return default
    pairs = _PAIRS.findall(text)
    if not pairs:
        warnings.warn(
            f"Could not parse CUBLAS_WORKSPACE_CONFIG, using default workspace size of {default} bytes.",
            stacklevel=2,
        )
        return default
    return sum(int(size) * int(count) << 10 for size, count in pairs)


def _light_bytes() -> int:
    text = os.environ.get("CUBLASLT_WORKSPACE_SIZE", "")
    return (int(text) if text.isdecimal() else _LT_KIB) << 10


def workspace_size(*, light: bool) -> int:
    """What `torch.backends.cuda.cublas_workspace_size` answers."""
    state = current_machine()
    return state.part(BlasWorkspaces).size(state.current_device(), light=light)


def choose_workspace_size(size: int | None, *, light: bool) -> None:
    """Set the bytes of the next workspaces; None: torch's own choice."""
    chosen = current_machine().part(BlasWorkspaces).chosen
    if size is None:
        chosen.pop(light, None)
    else:
        chosen[light] = size
