"""Copies between devices and types: the machine owns every transfer."""

from __future__ import annotations

from typing import Any

import torch

from samedevice.errors import UnsupportedFeatureError
from samedevice.provenance import Site
from samedevice.runtime.cuda import wait_for_copy
from samedevice.runtime.engine.composites import Composites
from samedevice.runtime.engine.refusals import refuse_nested
from samedevice.runtime.state import (
    CPU,
    META,
    VALUE_LIMIT,
    Decision,
    Helper,
    Memory,
    Operator,
    QuantizedMemory,
    assumed_values,
    aten,
    caller,
    memory_of,
    parts_of,
    raw_data_ptr,
    raw_is_meta,
    storage_of,
    this_thread,
    value_of,
    without_number,
)
from samedevice.runtime.tracking import Tracker, to_meta, to_value

HOST_LIMIT = max(1 << 30, VALUE_LIMIT)
"""Bytes from which a new host tensor is kept without values, so that a large model fits beside a person's
browser; more where more is asked for.
"""


class Transfers:
    """Moves tensors of one machine."""

    def __init__(self, tracker: Tracker, composites: Composites) -> None:
        self._tracker = tracker
        self._composites = composites
        self.ghosts: list[tuple[int, int]] = []
        """Address ranges of mapped ghost checkpoints, whose bytes mean nothing."""

    def to_copy(self, op: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The operator behind `Tensor.to` and all its kin."""
        source = args[0]
        if not isinstance(source, torch.Tensor):
            # a Python number, which C++ takes for a tensor here; transforms bring it to a type
            return NotImplemented
        device = kwargs.get("device")
        record = memory_of(source)
        home = record.device if record is not None else (META if raw_is_meta(source) else CPU)
        target = home if device is None else self._tracker.state.device(device)
        options = {
            name: value
            for name, value in kwargs.items()
            if name not in ("device", "non_blocking", "pin_memory")
        }
        if target.type == "meta" and not this_thread.to_meta and record is not None:
            if not record.virtual:
                return self._composites.like(op, args, kwargs)
            target = home  # the carrier's options, copied by C++ code: a change of type
        elif "cpu" in (home.type, target.type) and not kwargs.get("non_blocking"):
            wait_for_copy(home, target)
        moved = self.transfer(source, target, options, self._tracker.site())
        if home != target and without_number(device):
            decision = this_thread.decision
            if decision is not None:
                decision.without_index = True
        if (
            target.type == "cpu"
            and home.type == "cuda"
            and kwargs.get("non_blocking")
            and (own := memory_of(moved)) is not None
        ):
            own.pinned = True  # torch makes it so, for such a copy cannot do without
        return moved

    def transfer(
        self, source: torch.Tensor, target: torch.device, options: dict[str, Any], site: Site | None
    ) -> torch.Tensor:
        """A copy of `source` on `target`.

        `options` are those of `_to_copy` (dtype, layout, memory_format).
        """
        if source.layout is not torch.strided:
            return self._parts(source, target, options, site)
        if source.is_nested and target.type == "cuda":
            refuse_nested()
        record = memory_of(source)
        self._decide(source, record, target, site)
        if source.is_quantized and (target.type == "cuda" or record.__class__ is QuantizedMemory):
            return self._quantized(source, target, options, site)
        func = aten._to_copy.default
        if record is None and raw_is_meta(source):
            return self._from_meta(source, target, options, site)
        if target.type not in ("cuda", "cpu"):
            made: torch.Tensor = func(to_meta(source), **{**options, "device": target})
            return made
        home = CPU if record is None else record.device
        made_at = (
            record.made if record is not None and record.made is not None else (site if home == CPU else None)
        )
        moved = site if home != target else (record.moved if record is not None else None)
        if not (record is not None and record.virtual):
            return self._from_host(source, target, options, made_at, moved, site)
        dtype = options.get("dtype") or source.dtype
        small = source.numel() * dtype.itemsize <= self._tracker.value_limit
        kept = (
            small
            or (target.type == "cpu" and not record.blank)
            or (
                source.numel() * dtype.itemsize <= self._tracker.joined_limit
                and source.numel() * source.element_size() <= storage_of(source).nbytes()
            )
        )
        value = value_of(source, record) if kept else None
        if value is None and target.type == "cpu" and small:
            # Small host tensors are always real: scripts hand them to code that is not torch.
            result: torch.Tensor = func(assumed_values(source), **options)
            storage_of(result)._sd = self._tracker.host_record(made_at, moved, assumed=True)
            return result
        if value is None:
            result = func(source, **options)
            return self._tracker.adopt(result, target, made_at or site, moved=moved)
        result = func(value, **options)
        if target.type == "cpu" and home.type != "cpu":
            own = self._tracker.host_record(made_at, moved, assumed=record.assumed)
            own.returned = True
            storage_of(result)._sd = own
            return result
        return self._tracker.with_value(result, target, made_at or site, moved=moved, assumed=record.assumed)

    def _decide(
        self, source: torch.Tensor, record: Memory | None, target: torch.device, site: Site | None
    ) -> None:
        """Set the decision that the copy inherits: a change of type alone keeps that of its source."""
        home = (META if raw_is_meta(source) else CPU) if record is None else record.device
        decision = None if record is None else record.decision
        if decision is None and home == CPU:
            decision = Decision("outside", CPU, site)
        this_thread.decision = decision if home == target else self._tracker.moved(target, site, decision)

    def _quantized(
        self, source: torch.Tensor, target: torch.device, options: dict[str, Any], site: Site | None
    ) -> torch.Tensor:
        """A copy of a quantized tensor from a GPU or to one; see Note [Quantized tensors]."""
        if target.type == "meta":
            options = {**options, "device": target}
        value: torch.Tensor = aten._to_copy.default(source, **options)
        record = memory_of(source)
        made_at = site if record is None else record.made or site
        assumed = record is not None and record.assumed
        if target.type == "cpu":
            storage_of(value)._sd = self._tracker.host_record(made_at, site, assumed=assumed)
        elif target.type == "cuda":
            self._tracker.with_value(value, target, made_at, moved=site, assumed=assumed)
        return value

    def _parts(
        self, source: torch.Tensor, target: torch.device, options: dict[str, Any], site: Site | None
    ) -> torch.Tensor:
        """A copy of a sparse tensor."""
        func = aten._to_copy.default
        if not parts_of(source):
            raise UnsupportedFeatureError(
                f"A tensor of layout {source.layout} on a GPU is not supported on a virtual machine."
            )
        record = memory_of(source)
        virtual = record is not None and record.virtual
        if target.type == "meta" or (raw_is_meta(source) and not virtual):
            made: torch.Tensor = func(to_meta(source), **{**options, "device": target})
            return made
        value: torch.Tensor = func(to_value(source), **options)
        if target.type == "cpu":
            return value
        return self._tracker.with_value(
            value, target, site, moved=site, assumed=record is not None and record.uncomputed
        )

    def _from_host(
        self,
        source: torch.Tensor,
        target: torch.device,
        options: dict[str, Any],
        made_at: Site | None,
        moved: Site | None,
        site: Site | None,
    ) -> torch.Tensor:
        func = aten._to_copy.default
        dtype = options.get("dtype") or source.dtype
        nbytes = source.numel() * dtype.itemsize
        ghost = self.is_ghost(source)
        if target.type == "cpu" and nbytes <= (self._tracker.value_limit if ghost else HOST_LIMIT):
            result: torch.Tensor = func(source, **options)
            storage_of(result)._sd = self._tracker.host_record(made_at or site, moved, assumed=ghost)
            return result
        own = memory_of(source)
        limit = self._tracker.joined_limit if own is not None and own.returned else self._tracker.value_limit
        if target.type == "cpu" or nbytes > limit or ghost:
            result = func(to_meta(source), **options)
            return self._tracker.adopt(result, target, made_at or site, moved=moved)
        return self._tracker.with_value(
            func(source, **options),
            target,
            made_at or site,
            moved=moved,
            assumed=own is not None and own.assumed,
        )

    def _from_meta(
        self, source: torch.Tensor, target: torch.device, options: dict[str, Any], site: Site | None
    ) -> torch.Tensor:
        func = aten._to_copy.default
        if target.type == "meta":
            result: torch.Tensor = func(source, **options)
            return result
        mark = storage_of(source)._sd
        if mark.__class__ is Helper and mark.made_in(caller()):
            self._composites.resolve(source, target)
            return self.transfer(source, target, options, site)
        self._tracker.recorder.meta_copy(source, target, caller())
        result = func(source, **options)
        return self._tracker.adopt(result, target, site, moved=site)

    def is_ghost(self, tensor: torch.Tensor) -> bool:
        """Whether a host tensor lies in a mapped ghost checkpoint, or was copied out of one.

        The values of a copy are assumed.
        """
        record = memory_of(tensor)
        if record is not None and record.assumed:
            return True
        if not self.ghosts:
            return False
        address = tensor.data_ptr()
        return any(start <= address < end for start, end in self.ghosts)

    def is_pinned(self, tensor: torch.Tensor) -> bool:
        """Whether host memory counts as pinned."""
        record = memory_of(tensor)
        if record is not None and (record.pinned or record.virtual):
            return record.pinned
        registered = self._tracker.state.registered
        return bool(registered) and any(
            start <= raw_data_ptr(tensor) < start + size for start, size in registered.items()
        )

    def pin(self, tensor: torch.Tensor) -> torch.Tensor:
        """A pinned copy of a host tensor."""
        record = memory_of(tensor)
        if record is not None and record.device.type != "cpu":
            raise RuntimeError(f"cannot pin '{tensor.type()}' only dense CPU tensors can be pinned")
        if record is not None and record.virtual:
            record.pinned = True
            return tensor
        pinned = tensor.clone()
        own = self._tracker.host_record(
            None if record is None else record.made, None if record is None else record.moved, assumed=False
        )
        own.assumed = record is not None and record.assumed
        own.decision = None if record is None else record.decision
        own.pinned = True
        storage_of(pinned)._sd = own
        return pinned
