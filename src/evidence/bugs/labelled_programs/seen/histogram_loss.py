# cause: tensor-created-on-wrong-device|loss-or-label-on-other-device
# guilty: self.centres
# after: Project-MONAI/MONAI#8872
import torch
from torch import nn


class MutualInformation(nn.Module):
    def __init__(self, bins=8):
        super().__init__()
        edges = torch.linspace(0, 1, bins)
        self.width = float(edges[1] - edges[0])
        self.centres = edges[None, None]

    def weights(self, image):
        image = image.flatten(1)[..., None].clamp(0, 1)
        close = torch.exp(-((image - self.centres) ** 2) / (2 * self.width**2))
        return close / close.sum(-1, keepdim=True)

    def forward(self, one, other):
        a, b = self.weights(one), self.weights(other)
        joint = a.transpose(1, 2) @ b / a.shape[1]
        apart = a.mean(1)[..., None] * b.mean(1)[:, None]
        return -(joint * torch.log((joint + 1e-7) / (apart + 1e-7))).sum((1, 2)).mean()


device = torch.device("cuda:0")
warp = nn.Conv2d(1, 1, 3, padding=1).to(device)
criterion = MutualInformation().to(device)
moving, fixed = torch.rand(2, 2, 1, 8, 8, device=device)
loss = criterion(warp(moving), fixed)
loss.backward()
