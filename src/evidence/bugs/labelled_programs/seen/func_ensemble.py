# cause: module-left-on-other-device
# guilty: self.params
import copy
import torch
from torch import nn
from torch.func import functional_call, stack_module_state, vmap


class Quantile(nn.Module):
    def __init__(self, d=5, qs=(0.1, 0.5, 0.9)):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(d, 24), nn.Tanh(), nn.Linear(24, len(qs)))
        self.register_buffer("q", torch.tensor(qs))

    def forward(self, x):
        return self.net(x)

    def pinball(self, pred, y):
        e = y[:, None] - pred
        return torch.maximum(self.q * e, (self.q - 1) * e).mean()


class Ensemble(nn.Module):
    def __init__(self, k=4):
        super().__init__()
        self.members = nn.ModuleList(Quantile() for _ in range(k))
        self.params, self.buffers_ = stack_module_state(list(self.members))
        skeleton = copy.deepcopy(self.members[0]).to("meta")
        self.single = lambda params, buffers, x: functional_call(skeleton, (params, buffers), (x,))

    def forward(self, x):
        return vmap(self.single, in_dims=(0, 0, None))(self.params, self.buffers_, x)


def weather(n):
    x = torch.rand(n, 5)
    return x, x.sum(1) + x[:, 0] * torch.randn(n)


def pretrain(ens, device, steps=3):
    opt = torch.optim.Adam(ens.members.parameters(), 1e-2)
    for _ in range(steps):
        x, y = (t.to(device) for t in weather(32))
        loss = sum(m.pinball(m(x), y) for m in ens.members)
        opt.zero_grad()
        loss.backward()
        opt.step()
    return loss.item() / len(ens.members)


if __name__ == "__main__":
    torch.manual_seed(0)
    device = "cuda:0"
    ens = Ensemble().to(device)
    print("members", pretrain(ens, device))
    x, _ = weather(8)
    spread = ens(x.to(device)).std(0)
    print("spread", spread.mean(0).tolist())
