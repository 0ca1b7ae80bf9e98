# cause: device-ordinal-out-of-range
# guilty: card (index // per)
# line: 47
# repair: in CardPlan.__iter__ round up, per = math.ceil(depth / cards), so that the last blocks stay on the last card OR cap the index, min(index // per, self.cards - 1)
"""Time-series model that is dealt out to all cards of the machine."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class CardPlan:
    """Assigns consecutive blocks to consecutive cards."""

    def __init__(self, depth, cards=None):
        self.depth = depth
        self.cards = cards or max(torch.cuda.device_count(), 1)

    def __iter__(self):
        per = max(self.depth // self.cards, 1)
        for index in range(self.depth):
            yield torch.device(f"cuda:{index // per}")


class MixBlock(nn.Module):
    def __init__(self, length, features):
        super().__init__()
        self.over_time = nn.Linear(length, length)
        self.over_features = nn.Sequential(nn.Linear(features, 2 * features), nn.ReLU(),
                                           nn.Linear(2 * features, features))
        self.norm = nn.LayerNorm(features)

    def forward(self, x):
        x = x + self.over_time(self.norm(x).transpose(1, 2)).transpose(1, 2)
        return x + self.over_features(x)


class MixForecaster(nn.Module):
    def __init__(self, length=24, horizon=6, features=8, depth=7):
        super().__init__()
        self.blocks = nn.ModuleList(MixBlock(length, features) for _ in range(depth))
        self.project = nn.Linear(length, horizon)
        self.places = []

    def deal(self, plan=None):
        self.places = list(plan or CardPlan(len(self.blocks)))
        for block, card in zip(self.blocks, self.places):
            block.to(card)
        self.project.to(self.places[-1])
        return self

    def forward(self, x):
        for block, card in zip(self.blocks, self.places):
            x = block(x.to(card))
        return self.project(x.transpose(1, 2)).transpose(1, 2)


class Series:
    def __init__(self, rows=400, features=8):
        t = torch.arange(rows)[:, None]
        self.values = torch.sin(t * torch.linspace(0.05, 0.4, features)) + 0.1 * torch.randn(rows, features)

    def sample(self, batch, length, horizon):
        start = torch.randint(0, len(self.values) - length - horizon, (batch,)).tolist()
        x = torch.stack([self.values[s:s + length] for s in start])
        y = torch.stack([self.values[s + length:s + length + horizon] for s in start])
        return x, y


def train(steps=4):
    model = MixForecaster().deal()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    series = Series()
    for step in range(steps):
        x, y = series.sample(16, 24, 6)
        out = model(x)
        loss = F.huber_loss(out, y.to(out.device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(step, loss.item())
    return model


if __name__ == "__main__":
    torch.manual_seed(0)
    train()
