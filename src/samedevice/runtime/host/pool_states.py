"""States of a graph's pool, and tensors made from addresses, as `torch.compile` uses them between graphs.

Must guarantee: a block that a state brings back belongs to whoever is told to free it: the tensor that holds
it, a storage that was given for it, or the program, by its address. A storage made from an address has the
bytes that lie there. Source: `_cuda_setCheckpointPoolState` in torch/csrc/cuda/Module.cpp.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Collection, Sequence
from typing import Any
from weakref import WeakKeyDictionary, WeakSet

import torch

from samedevice.runtime.cuda import given_out, ledger_of
from samedevice.runtime.patching import Constant, Patch
from samedevice.runtime.state import (
    DeviceLedger,
    MachineState,
    Memory,
    PoolCheckpoint,
    PoolId,
    as_torch,
    carrier,
    checkpoint_of,
    current_machine,
    restore,
    storage_of,
)
from samedevice.runtime.tracking import Tracker

_NOT_PASSED = "Any stale tensors which are being manually freed must be passed to set checkpoint"
_left: WeakKeyDictionary[MachineState, dict[int, torch.UntypedStorage]] = WeakKeyDictionary()
"""Bytes of the results of graphs, by address: they are there also when nobody holds a result."""
_borrowed: WeakKeyDictionary[MachineState, WeakSet[Memory]] = WeakKeyDictionary()
"""Memory that was made from an address."""


def leave_bytes(address: int, shadow: torch.UntypedStorage | None) -> None:
    """A graph wrote its result there, or forgets it: None."""
    state = current_machine()
    left = _left.setdefault(state, {})
    if shadow is None:
        left.pop(address, None)
    else:
        left[address] = shadow
    for record in _borrowed.get(state, ()):
        if record.address == address:
            record.shadow = shadow


def _get_state(device: int, pool: PoolId) -> PoolCheckpoint:
    with ledger_of(device).alone() as allocator:
        return checkpoint_of(allocator, (pool[0], pool[1]))


def _set_state(
    device: int, checkpoint: PoolCheckpoint, stale: Sequence[int], holders: Sequence[int] = ()
) -> None:
    ledger = ledger_of(device)
    with ledger.alone() as allocator:
        before = _owners(ledger)
        freed, made = restore(allocator, checkpoint)
        asked = {address: allocator.live[address] for address in made}
    if len(set(stale)) < len(freed - made.keys()):
        raise RuntimeError(_NOT_PASSED)
    for record in _records(stale):
        if record.booked_at(ledger) not in freed:
            raise RuntimeError("Expected a stale tensor to be in the pool")
        before.pop(record.address, None)
        record.disown()
    given = given_out()
    for address in freed:
        given.pop(address, None)
        if address not in made and (owner := before.get(address)) is not None:
            owner.disown()
    holding = {record.address: record for record in _records(holders)}
    for address, block in made.items():
        owner = holding.get(address) or before.get(address)
        if owner is not None:
            owner.own(ledger, block, asked[address])
        else:
            given[address] = (ledger, [asked[address], block])


def _owners(ledger: DeviceLedger) -> dict[int, Memory]:
    """Who holds the blocks of a ledger: rarely asked for, so nobody keeps a list of it."""
    found = {}
    for held in gc.get_objects():
        if type(held) is Memory and (address := held.booked_at(ledger)):
            found[address] = held
    return found


def _records(storages: Collection[int]) -> list[Memory]:
    """What is known of storages that C++ names by their address."""
    wanted = set(storages)
    if not wanted:
        return []
    found = [
        each._sd  # type: ignore[attr-defined]
        for each in gc.get_objects()
        if type(each) is torch.UntypedStorage and each._cdata in wanted
    ]
    return [record for record in found if type(record) is Memory]


def _storage_at(address: int, device: torch.device, nbytes: int) -> torch.UntypedStorage:
    """A storage that holds no block: its death frees nothing."""
    state = current_machine()
    place = state.device(device)
    with as_torch():
        made = storage_of(carrier((nbytes,), (1,), torch.uint8))
    record = Memory(place, virtual=True, made=state.part(Tracker).site())
    record.address = address
    record.shadow = _bytes_at(ledger_of(place), address, nbytes)
    made._sd = record
    _borrowed.setdefault(state, WeakSet()).add(record)
    result: torch.UntypedStorage = made
    return result


def _bytes_at(ledger: DeviceLedger, address: int, nbytes: int) -> torch.UntypedStorage | None:
    left = _left.get(current_machine(), {}).get(address)
    owner = _owners(ledger).get(address)
    shadow = left if owner is None else owner.shadow
    return shadow if shadow is not None and shadow.nbytes() == nbytes else None


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "_cuda_getCheckpointState": _get_state,
    "_cuda_setCheckpointPoolState": _set_state,
    "_construct_storage_from_data_pointer": _storage_at,
}
PATCHES = tuple(
    Patch(
        f"torch._C.{name}",
        Constant(function),
        "C++ would ask the allocator of CUDA, and take an address of a virtual GPU for one of the process",
    )
    for name, function in _FUNCTIONS.items()
)
"""For the graphs of `torch.compile`."""
