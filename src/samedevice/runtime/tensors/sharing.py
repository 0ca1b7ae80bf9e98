"""Tensors of virtual GPUs in queues and pipes between processes.

CUDA's memory is shared by handle: the other process sees what this one writes, and nothing is allocated
there. Here the bytes move to shared memory of the host, which both processes then have as the tensor's
values. Memory without values is sent without.
"""

from __future__ import annotations

import threading
from multiprocessing.reduction import ForkingPickler
from typing import Any

import torch
from torch.multiprocessing import reductions

from samedevice.errors import UnsupportedFeatureError
from samedevice.runtime.cuda import INITIALIZATION_ERROR, is_in_bad_fork
from samedevice.runtime.patching import Patches
from samedevice.runtime.state import Memory, carrier, engine, memory_of, storage_of
from samedevice.runtime.tracking import Books

_Storage: Any = torch._C.StorageBase
_books: list[Books] = []
_lock = threading.Lock()


def install_sharing(patches: Patches, books: Books) -> None:
    """Replace what torch's own pickler makes of a tensor."""
    reduce: Any = reductions.reduce_tensor

    def reduce_tensor(tensor: torch.Tensor) -> Any:
        record = memory_of(tensor)
        if (
            record is None
            or not record.virtual
            or record.device.type == "cpu"
            or tensor.layout != torch.strided
        ):
            return reduce(tensor)
        if is_in_bad_fork():
            raise torch.AcceleratorError(INITIALIZATION_ERROR)
        if tensor.requires_grad and not tensor.is_leaf:
            return reduce(tensor)  # raises in torch's words
        shared = record.shadow
        if shared is not None and not _Storage.is_shared(shared):
            _share(shared)
        geometry = tensor.size(), tensor.stride(), tensor.storage_offset(), tensor.dtype
        told = str(record.device), storage_of(tensor).nbytes(), record.assumed
        return _rebuild, (type(tensor), shared, told, geometry, tensor.requires_grad)

    patches.attribute(reductions, "reduce_tensor", reduce_tensor)
    registered: Any = ForkingPickler._extra_reducers  # type: ignore[attr-defined]  # Python's own table
    for kind, known in list(registered.items()):
        if known is reduce:
            patches.item(registered, kind, reduce_tensor)
    patches.call(
        lambda: _books.append(books),
        lambda: _books.remove(books),
        "samedevice.runtime.tensors.sharing._books",
    )


def _share(storage: torch.UntypedStorage) -> None:
    strategy: Any = torch.multiprocessing.get_sharing_strategy  # untyped in torch
    share = _Storage._share_fd_cpu_ if strategy() == "file_descriptor" else _Storage._share_filename_cpu_
    share(storage)


def _rebuild(
    kind: type, shared: Any, told: tuple[str, int, bool], geometry: Any, requires_grad: bool
) -> torch.Tensor:
    with _lock:
        books = _books[-1] if _books else None
    device, nbytes, assumed = told
    if books is None:
        raise UnsupportedFeatureError(
            f"This process got a tensor on {device} of a virtual machine, and is on none. Send tensor.cpu()."
        )
    size, stride, offset, dtype = geometry
    before, engine.raw = engine.raw, True
    try:
        whole = carrier((nbytes,), (1,), torch.uint8)
        record = Memory(
            books.state.device(device), virtual=True, made=books.site()
        )  # booked where it was allocated
        record.address = books.address(nbytes)
        record.shadow, record.assumed = shared, assumed
        storage_of(whole)._sd = record
        made = torch.empty(0, dtype=dtype, device="meta").set_(storage_of(whole), offset, size, stride)
    finally:
        engine.raw = before
    return (
        torch.nn.Parameter(made, requires_grad)
        if issubclass(kind, torch.nn.Parameter)
        else made.requires_grad_(requires_grad)
    )
