# cause: device-map-incomplete-or-wrong|module-left-on-other-device
# guilty: ?
import torch
from torch import nn

DEVICE_MAP = {
    "embed": "cuda:0",
    "layers.0": "cuda:0",
    "layers.1": "cuda:0",
    "layers.2": "cuda:1",
    "layers.3": "cuda:1",
    "classifier": "cuda:1",
}


class Layer(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.conv = nn.Conv1d(dim, dim, 5, padding=2, groups=dim)
        self.mlp = nn.Linear(dim, dim)

    def forward(self, x):
        y = self.conv(self.norm(x).mT).mT
        return x + nn.functional.silu(self.mlp(y))


class GenomeNet(nn.Module):
    def __init__(self, dim=24, depth=4):
        super().__init__()
        self.embed = nn.Embedding(5, dim)
        self.layers = nn.ModuleList(Layer(dim) for _ in range(depth))
        self.final_norm = nn.LayerNorm(dim)
        self.classifier = nn.Linear(dim, 2)

    def forward(self, bases):
        x = self.embed(bases.to(self.embed.weight.device))
        for layer in self.layers:
            x = layer(x.to(layer.mlp.weight.device))
        x = self.final_norm(x)
        return self.classifier(x.mean(1))


def dispatch(model, device_map):
    for name, device in device_map.items():
        model.get_submodule(name).to(device)
    return model


def promoter_probability(model, sequences):
    table = {c: i for i, c in enumerate("ACGTN")}
    ids = torch.tensor([[table[c] for c in s] for s in sequences])
    with torch.no_grad():
        return model(ids).softmax(-1)[:, 1].tolist()


net = dispatch(GenomeNet().eval(), DEVICE_MAP)
print(promoter_probability(net, ["ACGTACGTNN", "TTTTACGATA"]))
