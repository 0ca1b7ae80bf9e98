# cause: meta-tensor-not-materialized
# guilty: self.freqs
# line: 19
# repair: register freqs as a buffer so that the state dict fills it: self.register_buffer("freqs", ...) in FourierFeatures.__init__ OR set it again after load_state_dict(assign=True) on the device of the stage: module.freqs = 2.0 ** torch.arange(n, device=...) OR build the model outside torch.device("meta")
import os
import tempfile

import torch
import torch.nn as nn


class FourierFeatures(nn.Module):
    def __init__(self, n=6):
        super().__init__()
        self.freqs = 2.0 ** torch.arange(n)
        self.gain = nn.Parameter(torch.ones(n))

    def forward(self, x):
        angles = x[..., None] * self.freqs
        feats = torch.cat([angles.sin() * self.gain, angles.cos() * self.gain], dim=-1)
        return feats.flatten(-2)


class Trunk(nn.Module):
    def __init__(self, dim_in, width, depth):
        super().__init__()
        dims = [dim_in] + [width] * depth
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in zip(dims, dims[1:]))

    def forward(self, x):
        for layer in self.layers:
            x = layer(x).relu()
        return x


class Field(nn.Module):
    """Density and colour of a point; trunk on one card, heads on the other."""

    def __init__(self, n=6, width=64):
        super().__init__()
        self.encode = FourierFeatures(n)
        self.trunk = Trunk(3 * 2 * n, width, 3)
        self.sigma = nn.Linear(width, 1)
        self.colour = nn.Sequential(nn.Linear(width, 32), nn.ReLU(), nn.Linear(32, 3), nn.Sigmoid())

    def forward(self, points):
        h = self.trunk(self.encode(points))
        h = h.to(self.sigma.weight.device)
        return self.sigma(h).relu(), self.colour(h)


def save_reference(path):
    torch.manual_seed(0)
    torch.save(Field().state_dict(), path)


def load_fast(path):
    with torch.device("meta"):
        field = Field()
    state = torch.load(path, map_location="cpu", mmap=True)
    missing, unexpected = field.load_state_dict(state, strict=False, assign=True)
    print("missing", missing, "unexpected", unexpected)
    field.encode.to("cuda:0")
    field.trunk.to("cuda:0")
    field.sigma.to("cuda:1")
    field.colour.to("cuda:1")
    return field.eval()


def render(field, origins, dirs, near=0.5, far=3.0, samples=16):
    t = torch.linspace(near, far, samples, device=origins.device)
    points = origins[:, None] + dirs[:, None] * t[None, :, None]
    sigma, colour = field(points)
    alpha = 1 - torch.exp(-sigma[..., 0] * (far - near) / samples)
    trans = torch.cumprod(torch.cat([torch.ones_like(alpha[:, :1]), 1 - alpha[:, :-1]], 1), 1)
    return ((alpha * trans)[..., None] * colour).sum(1)


with tempfile.TemporaryDirectory() as folder:
    checkpoint = os.path.join(folder, "field.pt")
    save_reference(checkpoint)
    field = load_fast(checkpoint)
    with torch.no_grad():
        o = torch.zeros(5, 3, device="cuda:0")
        d = nn.functional.normalize(torch.randn(5, 3, device="cuda:0"), dim=-1)
        print(render(field, o, d))
