"""What CUDA computes where the CPU's kernel refuses the values.

Must guarantee: the numbers are those of CUDA's own way, made of operators that the CPU has. Sources:
`nansum_out` of aten/src/ATen/native/ReduceOps.cpp refuses complex numbers for the CPU alone, and CUDA's
inverse from a Cholesky factor solves for the identity (`_cholesky_inverse_cusolver_potrs_based` of
cuda/linalg/BatchLinearAlgebraLib.cpp), which divides by a zero on the diagonal instead of asking for it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

aten = torch.ops.aten


def _nansum(
    self: torch.Tensor, dim: Any = None, keepdim: bool = False, *, dtype: torch.dtype | None = None
) -> torch.Tensor:
    found = torch.where(self.isnan(), 0, self)
    return torch.sum(found, dim=[] if dim is None else dim, keepdim=keepdim, dtype=dtype)


def _nansum_out(self: torch.Tensor, *given: Any, out: torch.Tensor, **options: Any) -> torch.Tensor:
    return _into(out, _nansum(self, *given, **options))


def _cholesky_inverse(self: torch.Tensor, upper: bool = False) -> torch.Tensor:
    ones = torch.eye(self.size(-1), dtype=self.dtype).expand(self.size())
    return torch.cholesky_solve(ones, self, upper=upper)


def _cholesky_inverse_out(self: torch.Tensor, upper: bool = False, *, out: torch.Tensor) -> torch.Tensor:
    return _into(out, _cholesky_inverse(self, upper))


def _into(out: torch.Tensor, found: torch.Tensor) -> torch.Tensor:
    if out.size() != found.size():
        out.resize_(found.size())
    return out.copy_(found)


@dataclass(frozen=True, slots=True)
class Refusal:
    """What the CPU's kernel says of values that CUDA takes, and CUDA's way for the same arguments."""

    words: str
    computed: Callable[..., Any]


_COMPLEX = "nansum on CPU does not support complex inputs"
_SINGULAR = "is zero, the inversion could not be completed"
WHERE_THE_CPU_REFUSES = {
    aten.nansum.default: Refusal(_COMPLEX, _nansum),
    aten.nansum.out: Refusal(_COMPLEX, _nansum_out),
    aten.cholesky_inverse.default: Refusal(_SINGULAR, _cholesky_inverse),
    aten.cholesky_inverse.out: Refusal(_SINGULAR, _cholesky_inverse_out),
}
"""By operator; whatever else the CPU's kernel refuses, CUDA's does, too."""

__all__ = ["WHERE_THE_CPU_REFUSES"]
