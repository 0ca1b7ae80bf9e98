# cause: block-split-across-devices
# guilty: left
import torch
from torch import nn


class PairUpdate(nn.Module):
    """Outer product of two projections of one sequence."""

    def __init__(self, dim=8):
        super().__init__()
        self.left = nn.Linear(dim, dim).to("cuda:0")
        self.right = nn.Linear(dim, dim).to("cuda:1")

    def forward(self, sequence):
        left = self.left(sequence.to("cuda:0"))
        right = self.right(sequence.to("cuda:1"))
        return torch.einsum("bid,bjd->bij", right, left)


print(PairUpdate()(torch.rand(2, 5, 8)).shape)
