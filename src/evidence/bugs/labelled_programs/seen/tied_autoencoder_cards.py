# cause: lm-head-or-tied-weight-split
# guilty: self.weight (x)
# line: 18
# repair: in CardAutoencoder.spread keep both halves on one card because they own one shared Parameter (decoder.to("cuda:1") takes the encoder's weight along) OR untie: give Decode its own copy nn.Parameter(encoder.weight.detach().clone())
"""Denoising autoencoder with transposed weights, halves on two cards."""
import torch
from torch import nn
import torch.nn.functional as F


class Encode(nn.Module):
    def __init__(self, inputs, code):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(code, inputs) / inputs ** 0.5)
        self.bias = nn.Parameter(torch.zeros(code))

    def forward(self, x):
        return F.linear(x, self.weight, self.bias).relu()


class Decode(nn.Module):
    def __init__(self, encoder):
        super().__init__()
        self.weight = encoder.weight
        self.bias = nn.Parameter(torch.zeros(encoder.weight.shape[1]))

    def forward(self, h):
        return F.linear(h, self.weight.t(), self.bias)


class CardAutoencoder(nn.Module):
    def __init__(self, inputs=40, code=12):
        super().__init__()
        self.encoder = Encode(inputs, code)
        self.decoder = Decode(self.encoder)

    def spread(self, first, second):
        self.first, self.second = torch.device(first), torch.device(second)
        self.encoder.to(self.first)
        self.decoder.to(self.second)
        return self

    def forward(self, x):
        h = self.encoder(x.to(self.first))
        return self.decoder(h.to(self.second))


def spectra(n, inputs=40):
    grid = torch.linspace(0, 1, inputs)
    centre = torch.rand(n, 1)
    return torch.exp(-((grid - centre) ** 2) / 0.01)


class Denoiser:
    def __init__(self, net, noise=0.2, lr=0.05):
        self.net, self.noise = net, noise
        self.opt = torch.optim.SGD(net.parameters(), lr=lr, momentum=0.9)

    def epoch(self, batches):
        for clean in batches:
            out = self.net(clean + self.noise * torch.randn_like(clean))
            loss = F.mse_loss(out, clean.to(out.device))
            self.opt.zero_grad()
            loss.backward()
            self.opt.step()
        return loss.item()


if __name__ == "__main__":
    torch.manual_seed(0)
    denoiser = Denoiser(CardAutoencoder().spread("cuda:0", "cuda:1"))
    for i in range(3):
        print(i, denoiser.epoch([spectra(32) for _ in range(4)]))
