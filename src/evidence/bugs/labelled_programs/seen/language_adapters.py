# cause: adapter-weights-on-other-device
# guilty: self.down
"""Bottleneck adapters per language over one shared encoder."""
import os
import tempfile
import torch
from torch import nn


class Adapter(nn.Module):
    def __init__(self, d, bottleneck=8):
        super().__init__()
        self.down, self.up = nn.Linear(d, bottleneck), nn.Linear(bottleneck, d)

    def forward(self, x):
        return x + self.up(torch.relu(self.down(x)))


class Encoder(nn.Module):
    def __init__(self, vocab=130, d=32, classes=4):
        super().__init__()
        self.d = d
        self.embed = nn.Embedding(vocab, d)
        self.layer = nn.TransformerEncoderLayer(d, 4, 64, dropout=0.0, batch_first=True)
        self.adapters = nn.ModuleDict()
        self.active = None
        self.head = nn.Linear(d, classes)

    def new_adapter(self, name):
        self.adapters[name] = Adapter(self.d).to(self.head.weight.device)
        self.active = name

    def load_adapter(self, name, path):
        adapter = Adapter(self.d)
        adapter.load_state_dict(torch.load(path, map_location="cpu"))
        self.adapters[name] = adapter
        return self

    def forward(self, ids):
        x = self.layer(self.embed(ids))
        if self.active is not None:
            x = self.adapters[self.active](x)
        return self.head(x.mean(1))


def tune(model, params, device, steps=4):
    opt = torch.optim.Adam(params, 2e-3)
    for _ in range(steps):
        ids = torch.randint(0, 130, (12, 10)).to(device)
        loss = nn.functional.cross_entropy(model(ids), ids[:, 0] % 4)
        opt.zero_grad()
        loss.backward()
        opt.step()
    return loss.item()


def train_language(name, path, device):
    model = Encoder().to(device)
    model.new_adapter(name)
    print(name, tune(model, model.adapters[name].parameters(), device))
    torch.save(model.adapters[name].state_dict(), path)


def main():
    torch.manual_seed(0)
    device = torch.device("cuda:0")
    with tempfile.TemporaryDirectory() as tmp:
        path = os.path.join(tmp, "sw.pt")
        train_language("sw", path, torch.device("cuda:1"))
        model = Encoder().to(device)
        model.new_adapter("en")
        print("en", tune(model, model.parameters(), device))
        model.load_adapter("sw", path)
    model.eval()
    ids = torch.randint(0, 130, (3, 10), device=device)
    with torch.no_grad():
        for name in ("en", "sw"):
            model.active = name
            print(name, model(ids).argmax(-1).tolist())


if __name__ == "__main__":
    main()
