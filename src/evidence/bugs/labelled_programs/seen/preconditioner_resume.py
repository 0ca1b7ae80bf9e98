# cause: optimizer-state-on-other-device|checkpoint-map-location
# guilty: self.left (block.left or left)
# after: facebookresearch/optimizers#3
import os
import tempfile

import torch
from torch import nn


class Block:
    def __init__(self, rows, device):
        self.left = torch.eye(rows, device=device) * 1e-3

    def update(self, grad):
        self.left += grad @ grad.t()
        return torch.linalg.solve(self.left, grad)


class Kron(torch.optim.Optimizer):
    def __init__(self, params, lr=0.01):
        super().__init__(params, {"lr": lr})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                state = self.state[p]
                if "block" not in state:
                    state["block"] = Block(p.shape[0], p.device)
                p.sub_(group["lr"] * state["block"].update(p.grad))


def run(net, optimizer, steps=2):
    for _ in range(steps):
        optimizer.zero_grad()
        net(torch.randn(8, 5, device="cuda:0")).square().mean().backward()
        optimizer.step()


net = nn.Linear(5, 4, bias=False).to("cuda:0")
optimizer = Kron(net.parameters())
run(net, optimizer)
path = os.path.join(tempfile.mkdtemp(), "kron.pt")
torch.save(optimizer.state_dict(), path)
optimizer = Kron(net.parameters())
optimizer.load_state_dict(torch.load(path, map_location="cpu", weights_only=False))
run(net, optimizer)
