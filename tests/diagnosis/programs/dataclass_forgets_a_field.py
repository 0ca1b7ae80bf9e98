# cause: extra-input-on-wrong-device
from dataclasses import dataclass

import torch
from torch import nn


@dataclass
class Batch:
    tokens: torch.Tensor
    lengths: torch.Tensor

    def to(self, device):
        return Batch(self.tokens.to(device), self.lengths)


class Bag(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(20, 8)
        self.out = nn.Linear(8, 2)

    def forward(self, batch):
        pooled = self.emb(batch.tokens).sum(1) / batch.lengths.unsqueeze(1)
        return self.out(pooled)


device = torch.device("cuda")
net = Bag().to(device)
b = Batch(torch.randint(0, 20, (4, 5)), torch.tensor([5.0, 3.0, 4.0, 2.0])).to(device)
print(net(b))
