"""Linear layers of bitsandbytes in 4 bits, as memory sees them; its kernels are not on a virtual machine.

A layer keeps two numbers in a byte, a bias, and for 64 numbers a constant in fp32, or (`compressed`) in 8
bits with one of fp32 for 256 of these (`QuantState` with `compress_statistics`). A product makes the whole
matrix in the type that the weights had when they were packed, and a copy where the input has another type;
so does its backward. `MatMul4Bit` (`bitsandbytes/autograd/_functions.py`) of 0.43.1 and before keeps its
input as well, as an attribute that lives as long as the graph; the measured runs are from then.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

_BLOCK, _OUTER = 64, 256
"""Numbers that share a constant, and constants that share one."""


class _Product(torch.autograd.Function):
    """A product with a matrix of 4 bits."""

    @staticmethod
    def forward(ctx: Any, given: torch.Tensor, layer: FourBits, bias: torch.Tensor | None) -> torch.Tensor:
        """Make the matrix, multiply."""
        ctx.layer, ctx.given = layer, given
        return nn.functional.linear(given, layer.matrix_for(given), bias)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        """Make it again."""
        return gradients[0] @ ctx.layer.matrix_for(gradients[0]), None, None


class FourBits(nn.Linear):
    """What memory sees of `Linear4bit`; a `Linear` for peft."""

    def __init__(
        self,
        layer: nn.Linear,
        device: torch.device,
        *,
        weight: torch.device,
        storage: torch.dtype,
        packed_from: torch.dtype,
        compressed: bool,
    ) -> None:
        """`weight` is where the packed numbers are, kept as numbers of the type `storage`."""
        super().__init__(1, 1, bias=False, device="meta")
        self.in_features, self.out_features = layer.in_features, layer.out_features
        self.packed_from = packed_from
        count = self.in_features * self.out_features
        packed = torch.empty(count // (2 * storage.itemsize), 1, dtype=storage, device=weight)
        self.weight = nn.Parameter(packed, requires_grad=False)
        self.bias = layer.bias
        kinds = ((torch.uint8, _BLOCK), (torch.float32, _BLOCK * _OUTER))
        self.constants = [
            torch.empty(count // numbers, dtype=dtype, device=device)
            for dtype, numbers in (kinds if compressed else ((torch.float32, _BLOCK),))
        ]

    def matrix_for(self, other: torch.Tensor) -> torch.Tensor:
        """The numbers, for one product with another matrix."""
        size = self.out_features, self.in_features
        return torch.empty(size, dtype=self.packed_from, device=other.device).to(other.dtype)

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """As `MatMul4Bit`."""
        made: torch.Tensor = _Product.apply(input, self, self.bias)
        return made
