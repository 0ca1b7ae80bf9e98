# cause: optimizer-state-on-other-device|checkpoint-map-location
# guilty: rows (state["rows"] or cols)
# after: facebookresearch/optimizers#3
import os
import tempfile

import torch
from torch import nn


class Factored:
    def __init__(self, named):
        self.weights = {n: p for n, p in named if p.dim() == 2}
        self.state = {}

    @torch.no_grad()
    def step(self):
        for name, weight in self.weights.items():
            square = weight.grad.square() + 1e-8
            rows, cols = self.state.get(name, (torch.zeros_like(square[:, 0]), torch.zeros_like(square[0])))
            rows = 0.9 * rows + 0.1 * square.mean(1)
            cols = 0.9 * cols + 0.1 * square.mean(0)
            self.state[name] = rows, cols
            spread = torch.outer(rows, cols) / rows.mean()
            weight.sub_(0.01 * weight.grad / spread.sqrt())
            weight.grad = None


def epoch(net, optimizer):
    for _ in range(2):
        net(torch.randn(8, 6).cuda()).square().mean().backward()
        optimizer.step()


file = os.path.join(tempfile.mkdtemp(), "state.pt")
net = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 2)).cuda()
first = Factored(net.named_parameters())
epoch(net, first)
torch.save(first.state, file)
second = Factored(net.named_parameters())
second.state.update(torch.load(file, map_location=torch.device("cpu")))
epoch(net, second)
