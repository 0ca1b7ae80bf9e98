# cause: hard-coded-device|input-not-on-embedding-device
# guilty: rows (batch, batch.float)
"""Each part makes its GPU the current one when it is built; batches go to whatever is current by then."""

import torch
from torch import nn


class Part(nn.Module):
    def __init__(self, gpu, inner):
        super().__init__()
        torch.cuda.set_device(gpu)
        self.layer = inner.cuda()

    def forward(self, rows):
        return self.layer(rows.float())


class Batches:
    def __init__(self, rows, size):
        self.rows, self.size = rows, size

    def __iter__(self):
        for start in range(0, len(self.rows), self.size):
            yield self.rows[start : start + self.size].cuda()


first, second = Part(0, nn.Linear(6, 4)), Part(1, nn.Linear(4, 2))
for batch in Batches(torch.randn(8, 6), 4):
    hidden = first(batch)
    print(second(hidden.to("cuda:1")).shape)
