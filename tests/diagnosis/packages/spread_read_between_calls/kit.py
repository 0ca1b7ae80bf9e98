import torch
from torch import nn


def stream(model, device):
    """Brings the weights of a model to a device for each call."""

    def bring(module, args):
        for each in module.parameters():
            each.data = each.data.to(device)

    def take_back(module, args, result):
        for each in module.parameters():
            each.data = each.data.to("cpu")

    model.register_forward_pre_hook(bring)
    model.register_forward_hook(take_back)
    return model


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)
        self.spread = nn.Parameter(torch.ones(4))

    def forward(self, x):
        return self.layer(x)

    def unscale(self, x):
        return x * self.spread
