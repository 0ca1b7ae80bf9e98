# cause: lm-head-or-tied-weight-split|input-not-on-embedding-device
# guilty: self.lookup.weight (self.lookup, ids, weight)
# line: 35
# repair: in CardSplit.apply place lookup and readout on the same card (readout on first, and move x there before it) OR untie the readout before the placement OR send ids to self.lookup.weight.device and x back
"""Character model with a shared table, cut into two stages by a placement helper."""
import torch
import torch.nn as nn
import torch.nn.functional as F

TEXT = "the quick brown fox jumps over the lazy dog and runs away from it all " * 20
CHARS = sorted(set(TEXT))


class GatedConv(nn.Module):
    def __init__(self, dim, width=4):
        super().__init__()
        self.pad = width - 1
        self.conv = nn.Conv1d(dim, 2 * dim, width)

    def forward(self, x):
        y = self.conv(F.pad(x.transpose(1, 2), (self.pad, 0)))
        return x + F.glu(y, dim=1).transpose(1, 2)


class CharModel(nn.Module):
    def __init__(self, vocab, dim=48, depth=4):
        super().__init__()
        self.lookup = nn.Embedding(vocab, dim)
        self.layers = nn.ModuleList(GatedConv(dim) for _ in range(depth))
        self.readout = nn.Linear(dim, vocab, bias=False)
        self.readout.weight = self.lookup.weight
        self.cut = depth // 2

    def forward(self, ids):
        x = self.lookup(ids)
        for i, layer in enumerate(self.layers):
            if i == self.cut:
                x = x.to(layer.conv.weight.device)
            x = layer(x)
        return self.readout(x)


class CardSplit:
    def __init__(self, first, second):
        self.first, self.second = torch.device(first), torch.device(second)

    def apply(self, model):
        model.lookup.to(self.first)
        for i, layer in enumerate(model.layers):
            layer.to(self.first if i < model.cut else self.second)
        model.readout.to(self.second)
        return model


def windows(data, length, batch, generator):
    start = torch.randint(0, len(data) - length - 1, (batch,), generator=generator)
    rows = torch.stack([data[s:s + length + 1] for s in start.tolist()])
    return rows[:, :-1], rows[:, 1:]


def main():
    torch.manual_seed(0)
    data = torch.tensor([CHARS.index(c) for c in TEXT])
    split = CardSplit("cuda:0", "cuda:1")
    model = split.apply(CharModel(len(CHARS)))
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    gen = torch.Generator().manual_seed(3)
    for step in range(4):
        x, y = windows(data, 32, 8, gen)
        logits = model(x.to(split.first))
        loss = F.cross_entropy(logits.flatten(0, 1), y.to(split.second).flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(step, f"{loss.item():.3f}")


if __name__ == "__main__":
    main()
