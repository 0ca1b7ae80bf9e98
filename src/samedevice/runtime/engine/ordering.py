"""Where sorting and choosing operators put values that nobody computed: places that differ from each other.

Must guarantee: no place comes twice along a dimension, as none does in any order. Zeros, which unknown
integers are assumed to be elsewhere, would let one expert of a mixture be chosen twice for a token.
"""

from __future__ import annotations

import torch

from samedevice.runtime.state import Call, plain

ORDERS = ("argsort", "sort", "topk")
"""Operators whose last result says where values were."""


def assumed_order(call: Call, shape: torch.Size) -> torch.Tensor | None:
    """The order that one of `ORDERS` gives unknown values, on the host: as they come. None for a number."""
    if not shape:
        return None
    position = call.op.argument_names.index("dim")
    dim = call.args[position] if position < len(call.args) else call.kwargs.get("dim", -1)
    steps = plain.arange(shape[dim])
    steps = steps.view([-1 if axis == dim % len(shape) else 1 for axis in range(len(shape))])
    return steps.expand(shape).contiguous()
