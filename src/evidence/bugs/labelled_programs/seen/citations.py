# cause: extra-input-on-wrong-device
# guilty: dst (edges)
import torch
import torch.nn as nn
import torch.nn.functional as F


class MeanConv(nn.Module):
    def __init__(self, i, o):
        super().__init__()
        self.lin = nn.Linear(i, o)

    def forward(self, x, edges):
        src, dst = edges
        msg = self.lin(x)[src]
        out = torch.zeros(x.size(0), msg.size(1), device=x.device)
        out.index_add_(0, dst, msg)
        deg = torch.bincount(dst, minlength=x.size(0)).clamp(min=1)
        return out / deg.unsqueeze(1)


class GNN(nn.Module):
    def __init__(self, f, h, c):
        super().__init__()
        self.a, self.b = MeanConv(f, h), MeanConv(h, c)

    def forward(self, x, edges):
        return self.b(F.relu(self.a(x, edges)), edges)


def make_graph(n=30, m=90, f=8, seed=0):
    g = torch.Generator().manual_seed(seed)
    return {
        "x": torch.randn(n, f, generator=g),
        "edges": torch.randint(0, n, (2, m), generator=g),
        "y": torch.randint(0, 3, (n,), generator=g),
        "train": torch.rand(n, generator=g) < 0.6,
    }


def to_device(graph, device):
    keys = ("x", "y", "train")
    return {k: v.to(device) if k in keys else v for k, v in graph.items()}


if __name__ == "__main__":
    torch.manual_seed(0)
    graph = to_device(make_graph(), "cuda:1")
    net = GNN(8, 16, 3).to("cuda:1")
    opt = torch.optim.Adam(net.parameters(), 0.01)
    for epoch in range(5):
        out = net(graph["x"], graph["edges"])
        loss = F.cross_entropy(out[graph["train"]], graph["y"][graph["train"]])
        opt.zero_grad()
        loss.backward()
        opt.step()
    print(loss.item())
