# cause: optimizer-state-on-other-device
# guilty: v
import io

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(27)


class HeavyBall:
    def __init__(self, params, lr=0.05, keep=0.9):
        self.params, self.lr, self.keep = list(params), lr, keep
        self.speed = [torch.zeros_like(p) for p in self.params]

    @torch.no_grad()
    def step(self):
        for p, v in zip(self.params, self.speed):
            v.mul_(self.keep).add_(p.grad)
            p.sub_(v, alpha=self.lr)
            p.grad = None

    def state_dict(self):
        return {"speed": self.speed, "lr": self.lr, "keep": self.keep}

    def load_state_dict(self, state):
        self.speed = list(state["speed"])
        self.lr, self.keep = state["lr"], state["keep"]


def epoch(net, opt, device):
    for _ in range(3):
        x = torch.randn(6, 8).to(device)
        loss = F.mse_loss(net(x), x.flip(1))
        loss.backward()
        opt.step()
    return loss.item()


device = torch.device("cuda:1")
net = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 8)).to(device)
opt = HeavyBall(net.parameters())
print("first run", epoch(net, opt, device))

checkpoint = io.BytesIO()
torch.save({"net": net.state_dict(), "opt": opt.state_dict()}, checkpoint)
checkpoint.seek(0)

state = torch.load(checkpoint, map_location="cpu")
net = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 8))
net.load_state_dict(state["net"])
net.to(device)
opt = HeavyBall(net.parameters())
opt.load_state_dict(state["opt"])
print("resumed", epoch(net, opt, device))
