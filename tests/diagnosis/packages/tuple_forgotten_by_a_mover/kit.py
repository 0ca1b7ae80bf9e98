import torch
from torch import nn


def to_device(batch, device):
    if isinstance(batch, torch.Tensor):
        return batch.to(device)
    if isinstance(batch, dict):
        return {name: to_device(each, device) for name, each in batch.items()}
    return batch


class Pair(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x, spans):
        low, high = spans
        h = self.layer(x)
        return h * low + h * high
