"""Operators on sparse tensors: they are computed on the CPU, from the values of the parts.

Must guarantee: the result of an operator is a sparse tensor of carriers or a carrier, where the operator ran.
Unknown values stand in as everywhere, and what follows from them is unknown.
"""

from __future__ import annotations

from typing import Any

import torch

from samedevice.device_rules import lacks_sparse
from samedevice.errors import UnsupportedFeatureError
from samedevice.events import EventKind
from samedevice.runtime.engine.calculation import Calculation
from samedevice.runtime.engine.cuda_terms import refuse
from samedevice.runtime.engine.mismatches import Mismatches, sparse_key
from samedevice.runtime.state import (
    CPU,
    MAKES_OF_PARTS,
    META,
    READS_PARTS,
    Call,
    Form,
    Memory,
    Operator,
    caller,
    device_of,
    memory_of,
    of_parts,
    tensors_in,
)
from samedevice.runtime.tracking import Tracker, forget, record_of, to_value

_set_data: Any = torch._C.TensorBase.data.__set__  # type: ignore[attr-defined]  # a C setter


class Sparse:
    """Runs operators that take or make sparse tensors."""

    def __init__(self, tracker: Tracker, calculation: Calculation, mismatches: Mismatches) -> None:
        self._tracker = tracker
        self._calculation = calculation
        self._mismatches = mismatches

    def make(self, op: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A sparse tensor over the very parts that were given."""
        tensors = list(tensors_in(args))
        records = [record_of(tensor) for tensor in tensors]
        if not any(record.__class__ is Memory and record.virtual for record in records):
            return NotImplemented
        call = Call(op, args, kwargs, tensors, records)
        if op.func is not MAKES_OF_PARTS[0]:
            self._compare_parts(call)
        if (
            len({str(record.device) for record in records if record.__class__ is Memory}) > 1
            or None in records
        ):
            call = self._mismatches.resolve(call, "SparseCUDA")
        if op.func is MAKES_OF_PARTS[-1]:  # the size follows from the indices
            host = op.func(*[to_value(value) for value in call.args], **{**call.kwargs, "device": CPU})
            return of_parts(call.args, host)
        return op.func(*call.args, **{**call.kwargs, "device": META})

    def _compare_parts(self, call: Call) -> None:
        """A compressed tensor wants its parts together: SparseCsrTensorImpl.cpp, set_member_tensors."""
        devices = [device_of(tensor) for tensor in call.tensors]
        for place, name in enumerate(_indices_of(call)):
            if devices[place] != devices[-1]:
                named = call.op.named(call.args, call.kwargs)
                text = f"Values and {name} need to be on the same device."
                kind = EventKind.MISMATCH
                self._tracker.recorder.refused(kind, call.op.name, text, named, devices, caller())
                return

    def run(self, call: Call, *, mixed: bool) -> Any:
        """An operator with a sparse tensor among its arguments."""
        op = call.op
        if op.short in READS_PARTS:
            return op.func(*call.args, **call.kwargs)
        key = sparse_key(call.tensors) if call.target.type == "cuda" else None
        if key is not None and lacks_sparse(op.name, key):
            refuse(call, key)
        if mixed:
            target = call.target
            call = self._mismatches.resolve(call)
            call.target = target if target.type == "cuda" else call.home
        if op.form is Form.INPLACE:
            return self._in_place(call)
        known = all(
            record.__class__ is not Memory or not record.virtual or record.shadow is not None
            for record in call.records
        )
        result = NotImplemented if op.form is Form.MIXED else self._calculation.results(call, force=not known)
        if result is NotImplemented:
            raise _not_supported(op)
        return result

    def _in_place(self, call: Call) -> Any:
        op, args = call.op, call.args
        written = [tensor for position in op.written for tensor in tensors_in(args[position])]
        unknown = [
            t
            for t in call.tensors
            if (record := memory_of(t)) is not None and record.virtual and record.shadow is None
        ]
        if unknown and all(tensor.layout is torch.strided for tensor in written):
            for tensor in written:
                forget(tensor)
            return args[op.returned[0]] if op.returned else None
        values = [to_value(value) for value in args]
        options = {name: to_value(value) for name, value in call.kwargs.items()}
        if not self._calculation.change(call, values, options):
            raise _not_supported(op)
        assumed = any(record.__class__ is Memory and record.uncomputed for record in call.records)
        changed = [value for position in op.written for value in tensors_in(values[position])]
        for tensor, value in zip(written, changed, strict=True):  # members of lists, too
            if tensor.layout is not torch.strided:
                _set_data(
                    tensor, self._tracker.with_value(value, call.home, self._tracker.site(), assumed=assumed)
                )
        return args[op.returned[0]] if op.returned else None


def _indices_of(call: Call) -> tuple[str, str]:
    """What torch calls the two kinds of indices of a layout."""
    columns = call.kwargs.get("layout") in (torch.sparse_csc, torch.sparse_bsc)
    return ("ccol_indices", "row_indices") if columns else ("crow_indices", "col_indices")


def _not_supported(op: Operator) -> UnsupportedFeatureError:
    return UnsupportedFeatureError(f"{op.short} with sparse tensors is not supported on a virtual machine.")
