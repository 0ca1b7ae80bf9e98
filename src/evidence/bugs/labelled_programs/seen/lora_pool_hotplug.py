# cause: adapter-weights-on-other-device|hard-coded-device
# guilty: down (up, self.pool[self.active])
# line: 25
# repair: in AdapterHub.plug move the pair to the layer that takes it: layer.add(name, down.to(layer.base.weight.device), up.to(layer.base.weight.device)) instead of the hub's one device
"""Serve several low-rank adapters over one base model that is cut over two cards."""
import io
import torch
from torch import nn


class PooledLinear(nn.Module):
    def __init__(self, base):
        super().__init__()
        self.base = base
        self.pool, self.active = {}, None

    def add(self, name, down, up):
        self.pool[name] = (down, up)

    def forward(self, x):
        y = self.base(x)
        if self.active is None:
            return y
        down, up = self.pool[self.active]
        return y + (x @ down) @ up


class Base(nn.Module):
    def __init__(self, dim=24, depth=4):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(dim, dim) for _ in range(depth)])

    def spread(self, cards):
        per = len(self.layers) // len(cards)
        for i, layer in enumerate(self.layers):
            layer.to(cards[i // per])
        return self

    def forward(self, x):
        for layer in self.layers:
            lin = layer.base if isinstance(layer, PooledLinear) else layer
            x = layer(x.to(lin.weight.device)).tanh()
        return x


class AdapterHub:
    def __init__(self, model):
        self.model = model
        for i, layer in enumerate(model.layers):
            model.layers[i] = PooledLinear(layer)
        self.device = next(model.parameters()).device

    def plug(self, name, file):
        weights = torch.load(file, map_location=self.device)
        for key, (down, up) in weights.items():
            self.model.layers[int(key)].add(name, down, up)

    def use(self, name):
        for layer in self.model.layers:
            layer.active = name


def adapter_file(dim=24, depth=4, rank=2):
    file = io.BytesIO()
    torch.save({str(i): (torch.randn(dim, rank), torch.zeros(rank, dim)) for i in range(depth)}, file)
    file.seek(0)
    return file


if __name__ == "__main__":
    model = Base().spread(["cuda:0", "cuda:1"]).eval()
    hub = AdapterHub(model)
    for name in ("legal", "medical"):
        hub.plug(name, adapter_file())
    with torch.no_grad():
        for name in (None, "legal", "medical"):
            hub.use(name)
            print(name, model(torch.randn(3, 24)).norm().item())
