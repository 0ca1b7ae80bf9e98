"""Who owns which memory: gives storages their record and enters them into the ledger."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterable
from typing import Any

import torch

from samedevice.events import DecisionKind
from samedevice.provenance import Site, resolve
from samedevice.runtime.state import (
    CPU,
    JOINED_SHARE,
    Decision,
    MachineState,
    Memory,
    OutOfDeviceMemoryError,
    QuantizedMemory,
    caller,
    carrier,
    held,
    of_parts,
    parts_of,
    raw_is_meta,
    storage_of,
    tensors_in,
    this_thread,
)
from samedevice.runtime.tracking.movers import decision_to_move
from samedevice.runtime.tracking.recorder import Recorder

_ADDRESS_OF_FIRST = 1 << 44


class Tracker:
    """Keeps track of the tensors of one machine: whose memory they are, and what they hold."""

    def __init__(self, state: MachineState, recorder: Recorder, value_limit: int) -> None:
        self.state = state
        self.recorder = recorder
        self._filter = recorder.filter
        self.value_limit = value_limit
        self.joined_limit = value_limit * JOINED_SHARE
        """For what holds only what was known before; see Note [Values]."""
        self._next_address = _ADDRESS_OF_FIRST

    def room(self, sources: Iterable[torch.Tensor]) -> int:
        """Bytes up to which results of known `sources` are computed; see Note [Values]."""
        return max(self.value_limit, min(2 * held(sources), self.joined_limit))

    def site(self) -> Site | None:
        """Where the running operator was called from: the innermost line outside torch and this package."""
        return self._filter.site(sys._getframe(1))

    @staticmethod
    def created(target: torch.device, site: Site | None, how: DecisionKind = "created") -> Decision:
        """The decision to make memory on `target`, where the running factory was told to."""
        decision = Decision(how, target, site)
        decision.taken = this_thread.taken
        return decision

    def moved(self, target: torch.device, site: Site | None, earlier: Decision | None) -> Decision:
        """The decision to move memory to `target`, by whom the running code shows."""
        return decision_to_move(sys._getframe(1), self._filter, target, site, earlier)

    def adopt(
        self,
        tensor: torch.Tensor,
        device: torch.device,
        site: Site | None,
        *,
        moved: Site | None = None,
        nbytes: int = -1,
    ) -> torch.Tensor:
        """Make a meta tensor's memory belong to `device`; memory that belongs somewhere already stays."""
        try:
            storage = storage_of(tensor)
        except NotImplementedError:
            tensor._sd = Memory(device, virtual=True, made=site, moved=moved)  # type: ignore[attr-defined]
            return tensor
        if type(storage._sd) is Memory:
            return tensor
        record = Memory(device, virtual=True, made=site, moved=moved)
        if device.type == "cuda":
            self.book(record, device.index, storage.nbytes() if nbytes < 0 else nbytes)
        else:
            record.address = self.address(storage.nbytes() if nbytes < 0 else nbytes)
        storage._sd = record
        return tensor

    def address(self, nbytes: int) -> int:
        """A virtual address of its own for so many bytes."""
        address = self._next_address
        self._next_address = address + ((nbytes + 1023) & -512)
        return address

    def book(self, record: Memory, index: int, nbytes: int) -> None:
        """Enter memory into a GPU's ledger. Raises torch.OutOfMemoryError when it does not fit."""
        state = self.state
        if not state.initialized:
            state.initialize()
        try:
            record.book(state.ledger(index), nbytes)
        except OutOfDeviceMemoryError as error:
            raise self.recorder.out_of_memory(state, index, error.requested, caller()) from None

    def rebook(self, record: Memory, storage: torch.UntypedStorage, before: int) -> None:
        """The storage was `before` bytes large.

        Raises torch.OutOfMemoryError, with its old size back, when it does not fit.
        """
        try:
            record.rebook(storage.nbytes())
        except OutOfDeviceMemoryError as error:
            storage.resize_(before)
            raise self.recorder.out_of_memory(
                self.state, record.device.index, error.requested, caller()
            ) from None

    def note_host(self, result: Any, site: Site | None) -> None:
        """Remember where host memory was made."""
        for tensor in tensors_in(result):
            try:
                storage = storage_of(tensor)
            except NotImplementedError:
                continue
            if storage._sd is None and not raw_is_meta(tensor):
                storage._sd = Memory(CPU, virtual=False, made=site)

    def with_value(
        self,
        value: torch.Tensor,
        device: torch.device,
        site: Site | None,
        *,
        moved: Site | None = None,
        assumed: bool = False,
    ) -> torch.Tensor:
        """A virtual tensor on `device` with the values of a CPU tensor, whose memory it takes over."""
        if value.layout != torch.strided:
            parts = [
                self.with_value(part, device, site, moved=moved, assumed=assumed) for part in parts_of(value)
            ]
            return of_parts(parts, value)
        if value.is_quantized:
            self._own_quantized(storage_of(value), device, site, moved=moved, assumed=assumed)
            return value
        made = carrier(value.size(), value.stride(), value.dtype)
        storage = storage_of(made)
        nbytes = storage.nbytes()
        if nbytes <= self.joined_limit or device.type == "cpu":
            source = value.untyped_storage()
            if source.nbytes() != nbytes or value.storage_offset() or value.is_conj() or value.is_neg():
                own = torch.empty_strided(value.size(), value.stride(), dtype=value.dtype)
                own.copy_(value)
                source = own.untyped_storage()
        else:
            source = None
        self.adopt(made, device, site, moved=moved, nbytes=nbytes)
        storage._sd.shadow = source
        storage._sd.assumed = assumed
        return made

    def _own_quantized(
        self,
        storage: Any,
        device: torch.device,
        site: Site | None,
        *,
        moved: Site | None,
        assumed: bool,
    ) -> None:
        """Make the memory of a quantized tensor belong to a GPU; see Note [Quantized tensors]."""
        if storage._sd.__class__ is QuantizedMemory:
            return
        record = QuantizedMemory(device, virtual=True, made=site, moved=moved)
        record.assumed = assumed
        self.book(record, device.index, storage.nbytes())
        storage._sd = record

    def host_record(self, made: Site | None, moved: Site | None, *, assumed: bool) -> Memory:
        """The record of real host memory."""
        record = Memory(CPU, virtual=False, made=made, moved=moved)
        record.assumed = assumed
        return record


def warn_of_unknown(tracker: Tracker, count: int, total: int, what: str) -> None:
    """Say that a file lacks values, at the line that writes it."""
    place = resolve(tracker.site())
    text = (
        f"samedevice: {what} holds zeros in place of {count} of its {total} tensors: a virtual machine does "
        "not know the values "
        "of large GPU tensors. Do not use this file for anything but another virtual run."
    )
    if place is None:
        warnings.warn(text, UserWarning, stacklevel=2)
    else:
        warnings.warn_explicit(text, UserWarning, place.file, place.line)
