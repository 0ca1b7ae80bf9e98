# cause: tensor-created-on-wrong-device
# guilty: self.window
import torch
from torch import nn


class Spectrum(nn.Module):
    def __init__(self, length=16):
        super().__init__()
        self.window = torch.hann_window(length)
        self.mix = nn.Linear(length, 4)

    def forward(self, wave):
        return self.mix(wave * self.window)


net = Spectrum().to("cuda:0")
print(net(torch.rand(3, 16).to("cuda:0")).shape)
