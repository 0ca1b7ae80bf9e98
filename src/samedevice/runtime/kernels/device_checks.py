"""Composite C++ operators that compare the devices of their arguments themselves.

They do it before any kernel is reached, and for C++ all virtual tensors share a device: two GPUs pass unseen,
and a host tensor is refused with a word about meta. So the comparison is made here, with the devices that a
script sees: the table's rows of such operators are the ones that have demands.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import torch

from samedevice.device_rules import row_for, rows_by_hand
from samedevice.events import EventKind
from samedevice.runtime.engine import refusal
from samedevice.runtime.kernels.replacements import composite, replaced
from samedevice.runtime.state import caller, current_machine, operator
from samedevice.runtime.tensors import move, seen_device
from samedevice.runtime.tracking import Recorder, replace_tensors

Tensor = torch.Tensor


def checked(op: Any, run: Callable[..., Any]) -> Callable[..., Any]:
    """`run` after the comparison of devices that `op` makes; where it refuses, on the first GPU."""
    facts = operator(op)

    def judged(*args: Any, **kwargs: Any) -> Any:
        named = facts.named(args, kwargs)
        devices = [seen_device(tensor) for _, tensor, _ in named]
        if len(set(devices)) < 2 or any(device.type == "meta" for device in devices):
            return run(*args, **kwargs)
        refused = refusal(row_for(facts.name), named, devices)
        if refused is None:
            return run(*args, **kwargs)
        recorder = current_machine().part(Recorder)
        recorder.refused(EventKind.MISMATCH, facts.name, refused.message, named, devices, caller())
        home = next(device for device in devices if device.type == "cuda")
        moved = {id(tensor): move(tensor, home) for _, tensor, _ in named}
        result = run(
            *[replace_tensors(value, moved) for value in args],
            **{name: replace_tensors(value, moved) for name, value in kwargs.items()},
        )
        outs = [(tensor, moved[id(tensor)]) for _, tensor, written in named if written]
        for own, stand_in in outs:
            own.resize_(stand_in.shape).copy_(stand_in)
        return replace_tensors(result, {id(stand_in): own for own, stand_in in outs})

    return functools.update_wrapper(judged, checked)


def _composites() -> Iterator[Any]:
    """Operators that are taken apart and have demands of their own, where this torch has them."""
    for name, row in rows_by_hand().items():
        base, _, overload = name.partition(".")
        packet = getattr(torch.ops.aten, base, None) if row.demands else None
        op = getattr(packet, overload or "default", None)
        if op is not None and operator(op).composite:
            yield op


_WITH_REPAIRS = ("tensor_split", "linalg_matrix_rank")
"""Of `composite_repairs`, which makes the comparison itself."""
PATCHES = replaced(
    {
        op: checked(op, functools.partial(composite, op))
        for op in _composites()
        if operator(op).short not in _WITH_REPAIRS
    },
    "C++ compares the devices before any kernel, and for C++ all virtual tensors share one",
)
