import torch
from torch import nn


class Dropper:
    def __init__(self, seed=0):
        self.generator = torch.Generator().manual_seed(seed)

    def __call__(self, x):
        return x * torch.empty_like(x).bernoulli_(0.5, generator=self.generator)
