# cause: extra-input-on-wrong-device|tensor-created-on-wrong-device
# guilty: nodes
"""Sampled graph learning on a citation graph: edges on the card, the wide features in host memory."""
import torch
import torch.nn.functional as F
from torch import nn


class Graph:
    def __init__(self, n=400, deg=6, feats=64, classes=5, device="cuda"):
        self.n = n
        self.near = torch.randint(n, (n, deg), device=device)
        self.label = torch.randint(classes, (n,), device=device)
        # the real matrix has 2 TB, it never goes to a card as a whole
        self.feats = torch.randn(n, feats)


def sample(graph, seeds, fan=3):
    cols = torch.randint(graph.near.size(1), (len(seeds), fan), device=seeds.device)
    other = graph.near[seeds].gather(1, cols)
    nodes, where = torch.unique(torch.cat([seeds, other.flatten()]), return_inverse=True)
    me, them = where[: len(seeds)], where[len(seeds):]
    src = them
    dst = torch.arange(len(seeds), device=seeds.device).repeat_interleave(fan)
    return nodes, me, src, dst


class Sage(nn.Module):
    def __init__(self, feats=64, width=32, classes=5):
        super().__init__()
        self.lift = nn.Linear(feats, width)
        self.own, self.other = nn.Linear(width, width), nn.Linear(width, width, bias=False)
        self.out = nn.Linear(width, classes)

    def forward(self, x, me, src, dst):
        h = F.relu(self.lift(x))
        gathered = torch.zeros(len(me), h.size(1), device=h.device).index_add_(0, dst, h[src])
        count = torch.bincount(dst, minlength=len(me)).clamp(min=1)
        return self.out(F.relu(self.own(h[me]) + self.other(gathered / count[:, None])))


def main():
    torch.manual_seed(19)
    device = torch.device("cuda")
    graph = Graph(device=device)
    net = Sage().to(device)
    opt = torch.optim.Adam(net.parameters(), lr=5e-3)
    for epoch in range(2):
        for seeds in torch.randperm(graph.n, device=device).split(100):
            nodes, me, src, dst = sample(graph, seeds)
            x = graph.feats[nodes].to(device, non_blocking=True)
            loss = F.cross_entropy(net(x, me, src, dst), graph.label[seeds])
            opt.zero_grad()
            loss.backward()
            opt.step()
        print(epoch, round(loss.item(), 4))


if __name__ == "__main__":
    main()
