# cause: block-split-across-devices
# guilty: y
import torch
import torch.nn as nn


class Expert(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(d, 2 * d), nn.GELU(), nn.Linear(2 * d, d))

    def forward(self, x):
        return self.net(x)


class Routed(nn.Module):
    def __init__(self, d=8, n=4, k=2, devices=("cuda:0", "cuda:1")):
        super().__init__()
        self.k = k
        self.gate = nn.Linear(d, n).to(devices[0])
        self.homes = [devices[i % len(devices)] for i in range(n)]
        self.experts = nn.ModuleList(Expert(d).to(h) for h in self.homes)

    def forward(self, x):
        w, idx = self.gate(x).softmax(-1).topk(self.k, -1)
        out = torch.zeros_like(x)
        for e, expert in enumerate(self.experts):
            rows, slot = (idx == e).nonzero(as_tuple=True)
            if rows.numel() == 0:
                continue
            y = expert(x[rows].to(self.homes[e]))
            out.index_add_(0, rows, y * w[rows, slot].unsqueeze(1))
        return out


if __name__ == "__main__":
    torch.manual_seed(0)
    layer = Routed()
    x = torch.randn(64, 8, device="cuda:0")
    opt = torch.optim.Adam(layer.parameters(), 1e-3)
    for i in range(2):
        loss = (layer(x) - x).pow(2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        print(i, loss.item())
