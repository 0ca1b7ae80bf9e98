"""Operators that change their arguments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.utils.deterministic

from samedevice.runtime.engine.calculation import Calculation
from samedevice.runtime.state import (
    META,
    Call,
    Memory,
    Operator,
    memory_of,
    plain,
    storage_of,
    tensors_in,
)
from samedevice.runtime.tracking import (
    Tracker,
    abstract,
    blank,
    forget,
    give_shadow,
    replace_tensors,
    to_meta,
)

Tensor = torch.Tensor


class Writing:
    """In-place operators, `out=` variants and kernels that keep running statistics."""

    def __init__(self, tracker: Tracker, calculation: Calculation) -> None:
        self._tracker = tracker
        self._calculation = calculation
        self._checked: set[Any] = set()
        """Calls whose shapes are known to fit."""

    def in_place(self, call: Call, *, known: bool) -> Any:
        """An operator that returns what it changes; `known` tells whether all its tensors have values."""
        op, args = call.op, call.args
        if torch.Tag.inplace_view in op.func.tags or op.short in ("resize_", "set_"):
            return self._change_geometry(op, args, call.kwargs)
        written = _written(op, args)
        if not known and op.overwrites:
            known = _revive(written, call, self._room(call, written))
        if known:
            for tensor in written:
                give_shadow(tensor)
            if self._calculation.in_place(call, written):
                return _returned(op, args)
        key = call.key()
        if key not in self._checked:
            abstract(op, args, call.kwargs)
            if key is not None:
                self._checked.add(key)
        for tensor in written:
            forget(tensor)
        return _returned(op, args)

    def mixed(self, call: Call, *, known: bool) -> Any:
        """An operator that changes arguments and returns new tensors too, or an `out=` variant."""
        op, args, kwargs = call.op, call.args, call.kwargs
        outs = {name for name in op.argument_names if kwargs.get(name) is not None and _is_out(op, name)}
        if outs:
            return self._into_out(call, outs)
        written = _written(op, args)
        if known:
            for tensor in written:
                give_shadow(tensor)
            result = self._calculation.results(call, force=False)
            if result is not NotImplemented:
                return result
        result = abstract(op, args, kwargs)
        for tensor in written:
            forget(tensor)
        site = self._tracker.site()
        for tensor in tensors_in(result):
            self._tracker.adopt(tensor, call.target, site)
        return result

    def _change_geometry(self, op: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """`t_`, `resize_`, `set_`: the tensor itself changes, and perhaps the size of its memory."""
        before = storage_of(args[0])
        size = before.nbytes()
        result = op.func(*args, **kwargs)
        storage = storage_of(args[0])
        record = storage._sd
        if storage is before and storage.nbytes() != size and record.__class__ is Memory:
            self._tracker.rebook(record, storage, size)
            if record.shadow is not None and storage.nbytes() <= self._tracker.value_limit:
                record.shadow.resize_(storage.nbytes())
                if op.short.startswith("resize") and torch.are_deterministic_algorithms_enabled():
                    _fill_new_part(record.shadow, size, args[0].dtype)
            else:
                record.shadow = None
        return result

    def _into_out(self, call: Call, outs: set[str]) -> Any:
        op, args, kwargs = call.op, call.args, call.kwargs
        written = [tensor for name in outs for tensor in tensors_in(kwargs[name])]
        sizes = [storage_of(tensor).nbytes() for tensor in written]
        inputs = [
            t
            for value in (*args, *(v for name, v in kwargs.items() if name not in outs))
            for t in tensors_in(value)
        ]
        room = self._tracker.room(inputs)
        if all(_has_values(tensor) for tensor in inputs) and all(
            _has_values(tensor) or blank(tensor, room) or _whole(tensor, room) for tensor in written
        ):
            for tensor in written:
                give_shadow(tensor)
            computed = self._calculation.into_out(call, outs)
            if computed is not NotImplemented:
                for tensor, size, value in zip(written, sizes, computed, strict=True):
                    self._follow(tensor, size, value)
                returned = [
                    tensor
                    for name in op.argument_names
                    if name in outs
                    for tensor in tensors_in(kwargs[name])
                ]
                if isinstance(kwargs[next(iter(outs))], (list, tuple)):
                    return None
                return returned[0] if len(returned) == 1 else tuple(returned)
        options = {name: to_meta(value) for name, value in kwargs.items()}
        if options.get("device") is not None:
            options["device"] = META
        result = op.func(*[to_meta(value) for value in args], **options)
        own: dict[int, torch.Tensor] = {}
        stand_ins = [tensor for name in outs for tensor in tensors_in(options[name])]
        for tensor, stand_in, size in zip(written, stand_ins, sizes, strict=True):
            if tensor is stand_in:
                record = memory_of(tensor)
                if record is not None and storage_of(tensor).nbytes() != size:
                    self._tracker.rebook(record, storage_of(tensor), size)
            elif tensor.size() != stand_in.size():  # host memory
                tensor.resize_(stand_in.size())
            own[id(stand_in)] = tensor
            forget(tensor)
        return replace_tensors(result, own)

    def _follow(self, tensor: torch.Tensor, size: int, value: torch.Tensor) -> None:
        """Give a tensor the geometry that its value got when it was resized."""
        record = memory_of(tensor)
        if record is None or not record.virtual:
            return
        storage = storage_of(tensor)
        nbytes = value.untyped_storage().nbytes()
        if nbytes != size:
            storage.resize_(nbytes)
            self._tracker.rebook(record, storage, size)
        if value.size() != tensor.size() or value.stride() != tensor.stride():
            tensor.set_(storage, value.storage_offset(), value.size(), value.stride())
        if nbytes > self._tracker.joined_limit:
            record.shadow = None

    def _room(self, call: Call, written: Sequence[torch.Tensor]) -> int:
        """Bytes that may get values from the tensors that are only read."""
        overwritten = set(map(id, written))
        return self._tracker.room(tensor for tensor in call.tensors if id(tensor) not in overwritten)


def _fill_new_part(shadow: torch.UntypedStorage, before: int, dtype: torch.dtype) -> None:
    """As torch marks what nobody wrote. Source: aten/src/ATen/native/Resize.h, fill_resize_deterministic_."""
    start = before // dtype.itemsize
    count = shadow.nbytes() // dtype.itemsize - start
    if count <= 0 or not torch.utils.deterministic.fill_uninitialized_memory:  # type: ignore[attr-defined]  # of a module class
        return
    new = plain.empty(0, dtype=dtype, device="cpu").set_(shadow, start, (count,), (1,))
    if dtype.is_floating_point or dtype.is_complex:
        new.fill_(float("nan"))
    else:
        new.fill_(True if dtype is torch.bool else torch.iinfo(dtype).max)


def _has_values(tensor: torch.Tensor) -> bool:
    record = memory_of(tensor)
    return record is None or not record.virtual or record.shadow is not None


def _whole(tensor: torch.Tensor, value_limit: int) -> bool:
    """Whether a tensor without values gets all of them by being overwritten."""
    nbytes: int = storage_of(tensor).nbytes()
    return nbytes <= value_limit and tensor.numel() * tensor.element_size() == nbytes


def _written(op: Operator, args: tuple[Any, ...]) -> list[torch.Tensor]:
    return [
        tensor
        for position in op.writes(args)
        if position < len(args)
        for tensor in tensors_in(args[position])
    ]


def _revive(written: Sequence[torch.Tensor], call: Call, limit: int) -> bool:
    """Whether overwritten tensors become known although some were not.

    They are small, and whole or blank, and their sources are known.
    """
    known = [
        record.__class__ is not Memory or not record.virtual or record.shadow is not None
        for record in call.records
    ]
    overwritten = {id(tensor) for tensor in written}
    return bool(written) and all(
        _takes_all(tensor, limit, has_values=has_values) if id(tensor) in overwritten else has_values
        for tensor, has_values in zip(call.tensors, known, strict=True)
    )


def _takes_all(written: torch.Tensor, limit: int, *, has_values: bool) -> bool:
    """Whether an overwritten tensor then has values."""
    record = storage_of(written)._sd
    if record.__class__ is not Memory or not record.virtual:
        return False
    return has_values or blank(written, limit) or _whole(written, limit)


def _returned(op: Operator, args: tuple[Any, ...]) -> Any:
    written = [args[position] for position in op.returned]
    if not written:
        return None
    return written[0] if len(written) == 1 else tuple(written)


def _is_out(op: Operator, name: str) -> bool:
    argument = op.func._schema.arguments[op.argument_names.index(name)]
    return bool(argument.kwarg_only and argument.alias_info is not None and argument.alias_info.is_write)
