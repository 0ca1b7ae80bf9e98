# cause: block-split-across-devices|device-map-incomplete-or-wrong
# guilty: y
import torch
from accelerate import dispatch_model
from torch import nn


class Layer(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.mix = nn.Linear(d, d)
        self.ff = nn.Sequential(nn.Linear(d, 4 * d), nn.GELU(), nn.Linear(4 * d, d))

    def forward(self, x):
        x = x + self.mix(self.n1(x))
        y = self.ff(self.n2(x))
        return x + y


class Tagger(nn.Module):
    def __init__(self, vocab=100, d=32, tags=7):
        super().__init__()
        self.emb = nn.Embedding(vocab, d)
        self.layers = nn.ModuleList(Layer(d) for _ in range(3))
        self.out = nn.Linear(d, tags)

    def forward(self, ids):
        x = self.emb(ids)
        for layer in self.layers:
            x = layer(x)
        return self.out(x)


placement = {
    "emb": 0,
    "layers.0": 0,
    "layers.1.n1": 0,
    "layers.1.n2": 0,
    "layers.1.mix": 0,
    "layers.1.ff": 1,
    "layers.2": 1,
    "out": 1,
}
model = dispatch_model(Tagger().eval(), device_map=placement)
with torch.no_grad():
    tags = model(torch.randint(0, 100, (2, 12))).argmax(-1)
print(tags.shape)
