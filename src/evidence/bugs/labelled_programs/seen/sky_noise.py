# cause: hard-coded-device
# guilty: noise
import torch
from torch import nn


class Dither(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Conv2d(1, 1, 3, padding=1)

    def forward(self, picture):
        smooth = self.body(picture)
        noise = torch.randn(smooth.shape, device="cuda:0")
        return smooth + 0.1 * noise


def main(device):
    net = Dither().to(device)
    picture = torch.rand(1, 1, 8, 8, device=device)
    print(net(picture).mean().item())


main("cuda:1")
