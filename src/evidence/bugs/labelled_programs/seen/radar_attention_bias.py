# cause: tensor-created-on-wrong-device
# guilty: self.attn_bias
# after: torchgeo/torchgeo#3232
import torch
from torch import nn


def distances(side, heads):
    axis = torch.arange(side)
    points = torch.stack(torch.meshgrid(axis, axis, indexing="ij"), -1).view(-1, 2).float()
    gaps = torch.cdist(points, points)
    slopes = torch.tensor([2.0 ** -(h + 1) for h in range(heads)])
    return -gaps[None] * slopes[:, None, None]


class RadarEncoder(nn.Module):
    def __init__(self, side=4, width=16, heads=2):
        super().__init__()
        self.heads = heads
        self.patch = nn.Conv2d(2, width, 4, 4)
        self.qkv = nn.Linear(width, 3 * width)
        self.attn_bias = distances(side, heads)

    def forward(self, image):
        x = self.patch(image).flatten(2).transpose(1, 2)
        b, n, w = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5
        weights = (scores + self.attn_bias).softmax(-1)
        return (weights @ v).transpose(1, 2).reshape(b, n, w)


encoder = RadarEncoder().to("cuda:1")
out = encoder(torch.randn(2, 2, 16, 16, device="cuda:1"))
print(out.mean().item())
