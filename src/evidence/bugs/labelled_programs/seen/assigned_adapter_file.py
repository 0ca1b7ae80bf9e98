# cause: adapter-weights-on-other-device|checkpoint-map-location
# guilty: self.down (self.down.weight)
# line: 19
# repair: in load_adapters load without assign=True (copy into the placed adapters), OR move each tensor to the device of its base layer before assigning, OR call place() again after loading
"""Bottleneck adapters trained on one card and served on a model cut over two."""
import os
import tempfile
import torch
import torch.nn as nn


class Adapter(nn.Module):
    def __init__(self, dim, rank=4):
        super().__init__()
        self.down = nn.Linear(dim, rank)
        self.up = nn.Linear(rank, dim)

    def forward(self, x):
        return x + self.up(torch.relu(self.down(x)))


class AdaptedBlock(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.base = nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, dim), nn.GELU())
        self.adapter = Adapter(dim)

    def forward(self, x):
        return self.adapter(x + self.base(x))


class Scorer(nn.Module):
    def __init__(self, dim=32, depth=4):
        super().__init__()
        self.blocks = nn.ModuleList(AdaptedBlock(dim) for _ in range(depth))
        self.head = nn.Linear(dim, 1)
        self.devices = None

    def place(self, devices):
        self.devices = [devices[i * len(devices) // len(self.blocks)] for i in range(len(self.blocks))]
        for block, device in zip(self.blocks, self.devices):
            block.to(device)
        self.head.to(devices[-1])
        return self

    def forward(self, x):
        for block, device in zip(self.blocks, self.devices):
            x = block(x.to(device))
        return self.head(x)


def save_adapters(model, path):
    torch.save({k: v for k, v in model.state_dict().items() if ".adapter." in k}, path)


def load_adapters(model, path):
    weights = torch.load(path, map_location="cuda:0")
    _, unexpected = model.load_state_dict(weights, strict=False, assign=True)
    assert not unexpected, unexpected
    return model


def train_somewhere(path):
    model = Scorer().place(["cuda:0"])
    opt = torch.optim.Adam([p for n, p in model.named_parameters() if ".adapter." in n], lr=1e-2)
    for _ in range(2):
        loss = model(torch.randn(8, 32)).pow(2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
    save_adapters(model, path)


if __name__ == "__main__":
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "adapters.pt")
        train_somewhere(file)
        scorer = load_adapters(Scorer().place(["cuda:0", "cuda:1"]), file).eval()
    with torch.no_grad():
        print(scorer(torch.randn(3, 32)).flatten().tolist())
