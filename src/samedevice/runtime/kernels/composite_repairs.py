"""Composite operators whose C++ does not work on carriers.

It reads memory that a carrier has not, or forgets its result under any dispatch mode.

`tensor_split` reads its indices on the host, and says where they are if they are not there.
`linalg_matrix_rank` takes a route for subclasses under a mode that writes no `out=`, and for matrices without
elements returns what it made on the carrier's own device (`aten/src/ATen/native/TensorShape.cpp` and
`LinearAlgebra.cpp`).
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

from samedevice.device_rules import Argument, judge_devices, row_for
from samedevice.events import EventKind
from samedevice.runtime.kernels.device_checks import checked
from samedevice.runtime.kernels.replacements import composite, replaced
from samedevice.runtime.state import META, caller, current_machine
from samedevice.runtime.tensors import host_copy, move, seen_device
from samedevice.runtime.tracking import Recorder
from samedevice.torch_versions.adapter import RELEASE

aten = torch.ops.aten
_split = aten.tensor_split.tensor_indices_or_sections


def _tensor_split(self: torch.Tensor, tensor_indices_or_sections: torch.Tensor, dim: int = 0) -> Any:
    indices = tensor_indices_or_sections
    where = seen_device(indices)
    if where.type == "cuda":
        name = "tensor_indices_or_sections"
        refusal = judge_devices(row_for(str(_split)), [Argument(name, str(where), indices.dim())], RELEASE)
        assert refusal is not None
        named = [("self", self, False), (name, indices, False)]
        current_machine().part(Recorder).refused(
            EventKind.MISMATCH, str(_split), refusal.message, named, [seen_device(self), where], caller()
        )
        indices = move(indices, torch.device("cpu"))
    return composite(_split, self, indices if where == META else host_copy(indices), dim)


def _matrix_rank(op: Any, input: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
    found: torch.Tensor = composite(op, input, *args, **kwargs)
    if seen_device(found) == META != seen_device(input):
        return torch.zeros(found.shape, dtype=found.dtype, device=seen_device(input))
    return found


def _matrix_rank_out(
    op: Any, input: torch.Tensor, *args: Any, out: torch.Tensor, **kwargs: Any
) -> torch.Tensor:
    found = op(input, *args, **kwargs)
    if out.shape != found.shape:
        out.resize_(found.shape)
    return out.copy_(found)


def _of(function: Callable[..., Any], op: Any) -> Callable[..., Any]:
    return functools.update_wrapper(functools.partial(function, op), function)


_rank = aten.linalg_matrix_rank
_RANKS = {
    _rank.default: _rank.out,
    _rank.tol_tensor: _rank.out_tol_tensor,
    _rank.atol_rtol_float: _rank.atol_rtol_float_out,
    _rank.atol_rtol_tensor: _rank.atol_rtol_tensor_out,
}
PATCHES = (
    *replaced({_split: _tensor_split}, "C++ would read the indices from memory that a carrier has not"),
    *replaced(
        {
            **{op: _of(_matrix_rank, op) for op in _RANKS},
            **{out: checked(out, _of(_matrix_rank_out, op)) for op, out in _RANKS.items()},
        },
        "under a mode C++ writes no `out=`, and makes the rank of empty matrices on the carrier's own device",
    ),
)
