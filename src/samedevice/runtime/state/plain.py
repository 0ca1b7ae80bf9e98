"""torch's own factories, for the engine's own tensors.

Scripts replace them for a while: DeepSpeed's `zero.Init` makes `torch.empty` and its kin work on the GPU in
half precision.
"""

from __future__ import annotations

import torch

arange = torch.arange
empty = torch.empty
full = torch.full
ones = torch.ones
tensor = torch.tensor
zeros = torch.zeros

__all__ = ["arange", "empty", "full", "ones", "tensor", "zeros"]
