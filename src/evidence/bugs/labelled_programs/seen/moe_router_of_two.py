# cause: block-split-across-devices|embedding-streams-on-different-devices
# guilty: y
"""Token-routed expert layer; the experts are divided among the two cards."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class Expert(nn.Module):
    def __init__(self, dim, width):
        super().__init__()
        self.up = nn.Linear(dim, width)
        self.down = nn.Linear(width, dim)

    def forward(self, x):
        return self.down(F.silu(self.up(x)))


class RoutedLayer(nn.Module):
    def __init__(self, dim, experts, k, devices):
        super().__init__()
        self.k = k
        self.router = nn.Linear(dim, experts, bias=False).to(devices[0])
        self.homes = [devices[i * len(devices) // experts] for i in range(experts)]
        self.experts = nn.ModuleList(Expert(dim, 2 * dim).to(home) for home in self.homes)

    def forward(self, x):
        flat = x.reshape(-1, x.size(-1))
        share, pick = self.router(flat).softmax(-1).topk(self.k, dim=-1)
        share = share / share.sum(-1, keepdim=True)
        out = torch.zeros_like(flat)
        for i, (home, expert) in enumerate(zip(self.homes, self.experts)):
            rows, slot = torch.where(pick == i)
            if rows.numel() == 0:
                continue
            y = expert(flat[rows].to(home))
            y = y * share[rows, slot].unsqueeze(-1).to(home)
            out = out.index_add(0, rows, y)
        return out.view_as(x)


class Net(nn.Module):
    def __init__(self, vocab, dim, devices):
        super().__init__()
        self.emb = nn.Embedding(vocab, dim).to(devices[0])
        self.norm = nn.LayerNorm(dim).to(devices[0])
        self.routed = RoutedLayer(dim, 4, 2, devices)
        self.out = nn.Linear(dim, vocab).to(devices[0])

    def forward(self, ids):
        h = self.emb(ids)
        return self.out(h + self.routed(self.norm(h)))


def main():
    torch.manual_seed(25)
    devices = ["cuda:0", "cuda:1"]
    net = Net(40, 16, devices)
    opt = torch.optim.Adam(net.parameters(), lr=1e-2)
    ids = torch.randint(40, (8, 11), device=devices[0])
    for step in range(4):
        loss = F.cross_entropy(net(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())
        opt.zero_grad()
        loss.backward()
        opt.step()
        print(step, round(loss.item(), 4))


if __name__ == "__main__":
    main()
