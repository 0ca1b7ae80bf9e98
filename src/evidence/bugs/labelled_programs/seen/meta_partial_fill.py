# cause: meta-tensor-not-materialized
# guilty: module (net.head, head)
# line: 45
# repair: in build() fill what the checkpoint does not name before placing: net.head.to_empty(device=...) followed by net.head.reset_parameters() (for every module left on meta) OR create net.head outside the torch.device("meta") context
"""Fine-tune a new head on a saved trunk; the skeleton is made without memory and cut over two cards."""
import os
import tempfile

import torch
from torch import nn


class Trunk(nn.Module):
    def __init__(self, features, width, depth):
        super().__init__()
        self.inp = nn.Linear(features, width)
        self.mid = nn.ModuleList([nn.Linear(width, width) for _ in range(depth)])

    def forward(self, x):
        h = self.inp(x).relu()
        for lin in self.mid:
            h = h + lin(h).relu()
        return h


class LandslideNet(nn.Module):
    def __init__(self, features=14, width=48, depth=3, classes=3):
        super().__init__()
        self.trunk = Trunk(features, width, depth)
        self.head = nn.Linear(width, classes)
        self.cards = ("cpu", "cpu")

    def forward(self, x):
        return self.head(self.trunk(x.to(self.cards[0])).to(self.cards[1]))


def save_pretrained(path):
    old = LandslideNet(classes=10)
    torch.save({k: v for k, v in old.state_dict().items() if not k.startswith("head.")}, path)


def place(net, cards):
    net.cards = cards
    for module, card in zip((net.trunk, net.head), cards):
        module.to(card)
    return net


def build(path, cards):
    with torch.device("meta"):
        net = LandslideNet(classes=3)
    report = net.load_state_dict(torch.load(path, map_location="cpu"), strict=False, assign=True)
    print("new weights:", report.missing_keys)
    return place(net, cards)


def tune(net, steps=3):
    opt = torch.optim.Adam(net.parameters(), lr=1e-3)
    for _ in range(steps):
        x, y = torch.randn(16, 14), torch.randint(0, 3, (16,))
        logits = net(x)
        loss = nn.functional.cross_entropy(logits, y.to(logits.device))
        opt.zero_grad()
        loss.backward()
        opt.step()
    return loss.item()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "trunk.pt")
        save_pretrained(file)
        print(tune(build(file, ("cuda:0", "cuda:1"))))
