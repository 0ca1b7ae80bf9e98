import torch
from torch import nn


class Basis(nn.Module):
    def __init__(self, size, dtype=None, device=None):
        super().__init__()
        self.register_buffer(
            "change", torch.linalg.qr(torch.randn(size, size, dtype=dtype, device=device))[0]
        )


class Shape(tuple):
    def __new__(cls, *sizes):
        made = super().__new__(cls, sizes)
        made._basis = Basis(sum(sizes))
        return made

    def table(self):
        return self._basis.change

    def turn(self, x):
        table = self.table()
        return x @ table.T
