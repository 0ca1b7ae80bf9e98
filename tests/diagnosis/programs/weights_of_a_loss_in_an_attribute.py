# cause: loss-or-label-on-other-device|tensor-created-on-wrong-device
import torch
from torch import nn


class Weighted:
    def __init__(self, shares):
        self.shares = shares

    def __call__(self, logits):
        return torch.einsum("nc,c->n", logits.log_softmax(-1), self.shares).mean()


def run(device):
    net = nn.Linear(4, 3).to(device)
    counts = torch.tensor([2.0, 5.0, 1.0])
    criterion = Weighted(counts / counts.sum())
    criterion(net(torch.ones(2, 4, device=device))).backward()


run("cuda:0")
