# cause: rope-table-on-wrong-device
# guilty: self.inv_freq
"""Classify short clips with axial rotary positions over time, height and width."""
import torch
from torch import nn


class AxialRotary:
    def __init__(self, head_dim, axes=3, base=100.0):
        assert head_dim % (2 * axes) == 0
        per_axis = head_dim // axes
        self.inv_freq = base ** (-torch.arange(0, per_axis, 2, dtype=torch.float32) / per_axis)
        self.axes = axes
        self.tables = {}

    def build(self, shape, device):
        grids = torch.meshgrid(*(torch.arange(n, device=device) for n in shape), indexing="ij")
        positions = torch.stack([g.flatten() for g in grids], dim=-1).float()
        angles = positions[..., None] * self.inv_freq
        return angles.flatten(1).cos(), angles.flatten(1).sin()

    def __call__(self, x, shape):
        key = (shape, x.device)
        if key not in self.tables:
            self.tables[key] = self.build(shape, x.device)
        cos, sin = self.tables[key]
        even, odd = x[..., 0::2], x[..., 1::2]
        return torch.stack([even * cos - odd * sin, even * sin + odd * cos], dim=-1).flatten(-2)


class VideoAttention(nn.Module):
    def __init__(self, dim, heads, rotary):
        super().__init__()
        self.heads, self.rotary = heads, rotary
        self.qkv, self.out = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    def forward(self, x, shape):
        b, n, d = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        q, k = self.rotary(q, shape), self.rotary(k, shape)
        y = nn.functional.scaled_dot_product_attention(q, k, v)
        return x + self.out(y.transpose(1, 2).reshape(b, n, d))


class ClipClassifier(nn.Module):
    def __init__(self, dim=24, heads=2, depth=2, classes=6):
        super().__init__()
        rotary = AxialRotary(dim // heads)
        self.tubes = nn.Conv3d(3, dim, kernel_size=(2, 4, 4), stride=(2, 4, 4))
        self.layers = nn.ModuleList(VideoAttention(dim, heads, rotary) for _ in range(depth))
        self.classes = nn.Linear(dim, classes)

    def forward(self, clip):
        x = self.tubes(clip)
        shape = tuple(x.shape[2:])
        x = x.flatten(2).transpose(1, 2)
        for layer in self.layers:
            x = layer(x, shape)
        return self.classes(x.mean(1))


if __name__ == "__main__":
    torch.manual_seed(0)
    device = torch.device("cuda:0")
    model = ClipClassifier().to(device).eval()
    with torch.no_grad():
        for frames in (4, 8):
            clip = torch.rand(2, 3, frames, 16, 16).to(device)
            print(model(clip).argmax(-1).cpu().tolist())
