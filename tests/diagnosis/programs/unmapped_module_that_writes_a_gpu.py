# cause: hard-coded-device
import torch
from accelerate import dispatch_model
from torch import nn


class Angles(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.register_buffer("rates", 1.0 / 100 ** (torch.arange(0, width, 2) / width), persistent=False)

    def forward(self, x, positions):
        steps = torch.arange(len(x), device="cuda:0")
        turned = steps[:, None].float() * self.rates.to(x.device)
        return torch.cat([turned.cos(), turned.sin()], dim=-1)


class Layer(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.mix = nn.Linear(width, width)

    def forward(self, x, angles):
        return x + self.mix(x * angles)


class Decoder(nn.Module):
    def __init__(self, vocabulary=32, width=8, depth=2):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.angles = Angles(width)
        self.layers = nn.ModuleList(Layer(width) for _ in range(depth))
        self.head = nn.Linear(width, vocabulary)

    def forward(self, ids, positions):
        x = self.embed(ids)
        angles = self.angles(x, positions)
        for layer in self.layers:
            x = layer(x, angles)
        return self.head(x)


def split(depth):
    places = {"embed": 1, "head": 1}
    for number in range(depth):
        places[f"layers.{number}"] = number % 2
    return places


model = Decoder()
device_map = split(2)
model = dispatch_model(model, device_map=device_map, main_device=0, force_hooks=True)
print(model(torch.arange(4, device="cuda:0"), torch.arange(4, device="cuda:0")).shape)
