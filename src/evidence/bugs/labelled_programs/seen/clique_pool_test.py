# cause: input-not-on-embedding-device|extra-input-on-wrong-device
# guilty: x (batch.x or self.x)
# after: pyg-team/pytorch_geometric#5028
from dataclasses import dataclass, fields

import torch
from torch import nn


@dataclass
class Graphs:
    x: torch.Tensor
    owner: torch.Tensor
    y: torch.Tensor

    def to(self, device):
        return Graphs(*(getattr(self, f.name).to(device) for f in fields(self)))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.out = nn.Linear(5, 16), nn.Linear(16, 2)

    def forward(self, batch):
        h = self.up(batch.x).relu()
        count = int(batch.owner.max()) + 1
        pooled = h.new_zeros(count, 16).index_add(0, batch.owner, h)
        return self.out(pooled)


def batches(n):
    for _ in range(n):
        yield Graphs(torch.randn(9, 5), torch.arange(9) // 3, torch.tensor([0, 1, 1]))


device = torch.device("cuda:0")
model = Net().to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for batch in batches(2):
    batch = batch.to(device)
    nn.functional.cross_entropy(model(batch), batch.y).backward()
    optimizer.step()
right = 0
for batch in batches(2):
    right += int((model(batch).argmax(-1) == batch.y).sum())
print(right)
