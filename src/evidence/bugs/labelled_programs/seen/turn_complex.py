# cause: rope-table-on-wrong-device
# guilty: turns
import torch
from torch import nn


def rotations(length, dim):
    speed = 1.0 / (100 ** (torch.arange(0, dim, 2) / dim))
    angles = torch.outer(torch.arange(length).float(), speed)
    return torch.polar(torch.ones_like(angles), angles)


class Attend(nn.Module):
    def __init__(self, dim=8):
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(dim, dim) for _ in range(3))

    def turn(self, x, turns):
        pairs = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
        return torch.view_as_real(pairs * turns).flatten(-2)

    def forward(self, x, turns):
        q, k = self.turn(self.q(x), turns), self.turn(self.k(x), turns)
        return (q @ k.transpose(-1, -2)).softmax(-1) @ self.v(x)


attend = Attend().to("cuda:0")
turns = rotations(6, 8)
print(attend(torch.rand(2, 6, 8, device="cuda:0"), turns).shape)
