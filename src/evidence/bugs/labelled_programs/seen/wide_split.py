# cause: data-parallel-replica-device
# guilty: model (net)
import torch
from torch import nn


class Columns(nn.Module):
    """Two halves of a wide network, each on its own card, merged by the first."""

    def __init__(self, d_in, width, classes, cards):
        super().__init__()
        self.cards = [torch.device(c) for c in cards]
        self.cols = nn.ModuleList(
            nn.Sequential(nn.Linear(d_in, width), nn.ReLU(), nn.Linear(width, width)).to(c) for c in self.cards)
        self.merge = nn.Linear(width * len(cards), classes).to(self.cards[0])

    def forward(self, x):
        parts = [col(x.to(c, non_blocking=True)) for c, col in zip(self.cards, self.cols)]
        return self.merge(torch.cat([p.to(self.cards[0]) for p in parts], -1))


def wrap(model):
    if torch.cuda.device_count() > 1:
        return nn.DataParallel(model)
    return model


class Run:
    def __init__(self, epochs=2, batch=32):
        self.epochs, self.batch = epochs, batch
        self.cards = ["cuda:0", "cuda:1"]

    def data(self):
        x = torch.randn(128, 20)
        y = (x[:, :3].sum(1) > 0).long() + 2 * (x[:, 3] > 0).long()
        return torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, y), self.batch, shuffle=True)

    def go(self):
        net = wrap(Columns(20, 64, 4, self.cards))
        opt = torch.optim.SGD(net.parameters(), lr=0.1)
        crit = nn.CrossEntropyLoss()
        for epoch in range(self.epochs):
            hits = seen = 0
            for x, y in self.data():
                x, y = x.to(self.cards[0]), y.to(self.cards[0])
                logits = net(x)
                loss = crit(logits, y)
                opt.zero_grad()
                loss.backward()
                opt.step()
                hits += (logits.argmax(1) == y).sum().item()
                seen += y.numel()
            print(f"epoch {epoch} acc {hits / seen:.3f}")


if __name__ == "__main__":
    torch.manual_seed(4)
    Run().go()
