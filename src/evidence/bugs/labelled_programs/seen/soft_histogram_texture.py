# cause: tensor-created-on-wrong-device
# guilty: centers (default argument centers)
# line: 13
# repair: in soft_histogram move the default argument to the values: `centers = centers.to(values.device)` OR make the centers in the body with device=values.device
"""Texture retrieval: differentiable histograms of filter responses, compared by a learned metric."""
import torch
import torch.nn as nn
import torch.nn.functional as F


def soft_histogram(values, centers=torch.linspace(-2.0, 2.0, 16), sharpness=8.0):
    """values: (batch, channels, pixels) -> (batch, channels, bins)"""
    distance = values.unsqueeze(-1) - centers
    votes = torch.softmax(-sharpness * distance ** 2, dim=-1)
    return votes.mean(dim=2)


class FilterBank(nn.Module):
    def __init__(self, n=8, size=7):
        super().__init__()
        self.conv = nn.Conv2d(1, n, size, padding=size // 2, bias=False)

    def forward(self, gray):
        x = self.conv(gray)
        return (x - x.mean((2, 3), keepdim=True)) / (x.std((2, 3), keepdim=True) + 1e-5)


class TextureNet(nn.Module):
    def __init__(self, descriptor, n=8, bins=16, dim=12):
        super().__init__()
        self.bank = FilterBank(n)
        self.descriptor = descriptor
        self.metric = nn.Linear(n * bins, dim)

    def forward(self, gray):
        hist = self.descriptor(self.bank(gray).flatten(2))
        return F.normalize(self.metric(hist.flatten(1)), dim=-1)


DESCRIPTORS = {"soft_histogram": soft_histogram}


def build(name, device):
    return TextureNet(DESCRIPTORS[name]).to(device)


def triplet_batch(n=6):
    freq = torch.randint(1, 6, (n, 1, 1, 1)).float()
    grid = torch.linspace(0, 6.28, 24).view(1, 1, 1, -1)
    make = lambda f: torch.sin(f * grid + torch.rand(n, 1, 1, 1) * 6) + 0.1 * torch.randn(n, 1, 24, 24)
    return make(freq), make(freq), make(freq + 1)


if __name__ == "__main__":
    torch.manual_seed(0)
    net = build("soft_histogram", "cuda:0")
    opt = torch.optim.Adam(net.parameters(), lr=1e-3)
    for step in range(3):
        a, p, q = (net(v.to("cuda:0")) for v in triplet_batch())
        loss = F.triplet_margin_loss(a, p, q, margin=0.3)
        opt.zero_grad()
        loss.backward()
        opt.step()
        print(step, round(loss.item(), 4))
