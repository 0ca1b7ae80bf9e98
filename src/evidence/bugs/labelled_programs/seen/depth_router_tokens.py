# cause: block-split-across-devices|device-map-incomplete-or-wrong
# guilty: index (chosen.indices)
# line: 23
# repair: in place() send the router to the card of its block (layer.to(card) for the whole DepthLayer instead of layer.block.to(card)) OR in DepthLayer.forward move both parts of the choice: index.to(h.device) and chosen.values.to(h.device)
"""Mixture-of-depths classifier: only the routed tokens pass through a block."""
import torch
from torch import nn


class DepthLayer(nn.Module):
    def __init__(self, dim, share=0.5):
        super().__init__()
        self.share = share
        self.router = nn.Linear(dim, 1)
        self.block = nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))

    def forward(self, h):
        weight = self.router(h.to(self.router.weight.device)).squeeze(-1)
        k = max(1, int(h.shape[1] * self.share))
        chosen = weight.topk(k, dim=1)
        index = chosen.indices.unsqueeze(-1).expand(-1, -1, h.shape[-1])
        h = h.to(self.block[1].weight.device)
        picked = h.gather(1, index)
        update = self.block(picked) * chosen.values.sigmoid().unsqueeze(-1)
        return h.scatter_add(1, index, update)


class DepthNet(nn.Module):
    def __init__(self, features=12, dim=24, depth=4, classes=3):
        super().__init__()
        self.stem = nn.Linear(features, dim)
        self.layers = nn.ModuleList([DepthLayer(dim) for _ in range(depth)])
        self.head = nn.Linear(dim, classes)

    def forward(self, x):
        h = self.stem(x)
        for layer in self.layers:
            h = layer(h)
        return self.head(h.mean(1))


def place(net, first, second):
    net.to(first)
    half = len(net.layers) // 2
    for layer in net.layers[half:]:
        layer.block.to(second)
    net.head.to(second)
    return net


def accuracy(net, batches, device):
    hits = total = 0
    with torch.no_grad():
        for x, y in batches:
            pred = net(x.to(device)).argmax(-1).cpu()
            hits += int((pred == y).sum())
            total += y.numel()
    return hits / total


if __name__ == "__main__":
    net = place(DepthNet(), "cuda:0", "cuda:1").eval()
    batches = [(torch.randn(8, 10, 12), torch.randint(0, 3, (8,))) for _ in range(3)]
    print("accuracy", accuracy(net, batches, "cuda:0"))
