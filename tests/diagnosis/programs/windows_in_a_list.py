# cause: tensor-created-on-wrong-device
import torch
from torch import nn


class Spectrum(nn.Module):
    def __init__(self, sizes=(8, 16)):
        super().__init__()
        self.sizes, self.windows = sizes, [torch.hann_window(n) for n in sizes]

    def forward(self, wave):
        loss = wave.new_zeros(())
        for i in range(len(self.sizes)):
            n = self.sizes[i]
            loss = loss + torch.stft(wave, n, window=self.windows[i], return_complex=True).abs().mean()
        return loss


net = nn.Linear(32, 32).to("cuda:0")
spectrum = Spectrum().to("cuda:0")
spectrum(net(torch.randn(2, 32, device="cuda:0"))).backward()
