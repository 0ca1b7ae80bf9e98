"""Tensors of virtual GPUs in queues and pipes between processes.

CUDA's memory is shared by handle: the other process sees what this one writes, and nothing is allocated
there. Here the bytes move to shared memory of the host, which both processes then have as the tensor's
values. Memory without values is sent without.
"""

from __future__ import annotations

from multiprocessing.reduction import ForkingPickler
from typing import Any

import torch
from torch.multiprocessing import reductions

from samedevice.errors import UnsupportedFeatureError
from samedevice.runtime.cuda import INITIALIZATION_ERROR, is_in_bad_fork
from samedevice.runtime.patching import Constant, Entry, Patch, Row
from samedevice.runtime.state import (
    Decision,
    Memory,
    as_torch,
    carrier,
    current_machine,
    entered,
    memory_of,
    storage_of,
)
from samedevice.runtime.tracking import Tracker
from samedevice.torch_versions.adapter import TORCH

_Storage: Any = torch._C.StorageBase
_reduce: Any = reductions.reduce_tensor


def _reduce_tensor(tensor: torch.Tensor) -> Any:
    record = memory_of(tensor)
    if record is None or not record.virtual or record.device.type == "cpu" or tensor.layout != torch.strided:
        return _reduce(tensor)
    if is_in_bad_fork():
        raise TORCH.accelerator_error(INITIALIZATION_ERROR)
    if tensor.requires_grad and not tensor.is_leaf:
        return _reduce(tensor)  # raises in torch's words
    shared = record.shadow
    if shared is not None and not _Storage.is_shared(shared):
        _share(shared)
    geometry = tensor.size(), tensor.stride(), tensor.storage_offset(), tensor.dtype
    memory = str(record.device), storage_of(tensor).nbytes(), record.assumed
    return _rebuild, (type(tensor), shared, memory, geometry, tensor.requires_grad)


def _registered(original: Any) -> Any:
    """A reducer that a script registered stays."""
    return _reduce_tensor if original is _reduce else original


def _share(storage: torch.UntypedStorage) -> None:
    strategy: Any = torch.multiprocessing.get_sharing_strategy  # untyped in torch
    share = _Storage._share_fd_cpu_ if strategy() == "file_descriptor" else _Storage._share_filename_cpu_
    share(storage)


def _rebuild(
    kind: type, shared: Any, memory: tuple[str, int, bool], geometry: Any, requires_grad: bool
) -> torch.Tensor:
    device, nbytes, assumed = memory
    if not entered():
        raise UnsupportedFeatureError(
            f"This process got a tensor on {device} of a virtual machine, and is on none. Send tensor.cpu()."
        )
    tracker = current_machine().part(Tracker)
    size, stride, offset, dtype = geometry
    with as_torch():
        whole = carrier((nbytes,), (1,), torch.uint8)
        record = Memory(
            tracker.state.device(device), virtual=True, made=tracker.site()
        )  # booked where it was allocated
        record.address = tracker.address(nbytes)
        record.shadow, record.assumed = shared, assumed
        record.decision = Decision("received", record.device, tracker.site())
        storage_of(whole)._sd = record
        made = torch.empty(0, dtype=dtype, device="meta").set_(storage_of(whole), offset, size, stride)
    return (
        torch.nn.Parameter(made, requires_grad)
        if issubclass(kind, torch.nn.Parameter)
        else made.requires_grad_(requires_grad)
    )


_HANDLES = "C++ has no handle for the memory of a virtual GPU that another process could open"
PATCHES: tuple[Row, ...] = (
    Patch("torch.multiprocessing.reductions.reduce_tensor", Constant(_reduce_tensor), _HANDLES),
    *(
        Entry(
            f"multiprocessing.reduction.ForkingPickler._extra_reducers[{name}]",
            lambda: ForkingPickler._extra_reducers,  # type: ignore[attr-defined]  # Python's own table
            kind,
            _registered,
            _HANDLES,
        )
        for name, kind in (("torch.Tensor", torch.Tensor), ("torch.nn.Parameter", torch.nn.Parameter))
    ),
)
