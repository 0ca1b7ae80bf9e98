# cause: data-parallel-replica-device
# guilty: m (self.members)
import torch
import torch.nn as nn
import torch.nn.functional as F


def mlp(i, h, o):
    return nn.Sequential(nn.Linear(i, h), nn.GELU(), nn.Linear(h, o))


class Ensemble(nn.Module):
    def __init__(self, d, k, out, device):
        super().__init__()
        self.trunk = mlp(d, 64, 32)
        self.gate = nn.Linear(32, k)
        self.members = [mlp(32, 32, out).to(device) for _ in range(k)]
        for i, m in enumerate(self.members):
            for name, p in m.named_parameters():
                self.register_parameter(f"m{i}_{name.replace('.', '_')}", p)
        self.to(device)

    def forward(self, x):
        h = self.trunk(x)
        g = self.gate(h).softmax(-1)
        outs = torch.stack([m(h) for m in self.members], dim=1)
        return torch.einsum("bk,bko->bo", g, outs)


def batches(n, size=16, d=10):
    w = torch.randn(d, 2)
    for _ in range(n):
        x = torch.randn(size, d)
        yield x, torch.sin(x @ w)


def train(net, n=5):
    opt = torch.optim.Adam(net.parameters(), lr=3e-3)
    history = []
    for x, y in batches(n):
        x, y = x.cuda(), y.cuda()
        loss = F.smooth_l1_loss(net(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        history.append(loss.item())
    return history


if __name__ == "__main__":
    torch.manual_seed(2)
    model = Ensemble(10, 3, 2, "cuda:0")
    parallel = nn.DataParallel(model, device_ids=list(range(torch.cuda.device_count())))
    for i, v in enumerate(train(parallel)):
        print(i, round(v, 5))
