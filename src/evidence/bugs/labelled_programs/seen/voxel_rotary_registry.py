# cause: rope-table-on-wrong-device
# guilty: cos (sin, VoxelRotary._tables)
# line: 28
# repair: key VoxelRotary._tables by device too (`key = (dim, tuple(grid), device)`) so that each card gets its own table OR move cos and sin to q.device in apply
"""3D rotary positions for voxel tokens; the table is shared by all attention layers of a class."""
import torch
import torch.nn as nn


class VoxelRotary:
    _tables = {}

    @classmethod
    def table(cls, dim, grid, device):
        key = (dim, tuple(grid))
        if key not in cls._tables:
            coords = torch.stack(torch.meshgrid(*[torch.arange(g, device=device) for g in grid],
                                                indexing="ij"), -1).reshape(-1, 3).float()
            inv = 10000 ** (-torch.arange(0, dim // 3, 2, device=device).float() / (dim // 3))
            angle = (coords[:, :, None] * inv).flatten(1).repeat_interleave(2, -1)
            cls._tables[key] = (angle.cos(), angle.sin())
        return cls._tables[key]

    @classmethod
    def apply(cls, q, grid):
        cos, sin = cls.table(q.shape[-1], grid, q.device)
        pair = torch.stack([-q[..., 1::2], q[..., ::2]], -1).flatten(-2)
        return q * cos + pair * sin


class VoxelAttention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, dim * 3)
        self.proj = nn.Linear(dim, dim)

    def forward(self, x, grid):
        b, n, d = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        q, k = VoxelRotary.apply(q, grid), VoxelRotary.apply(k, grid)
        y = nn.functional.scaled_dot_product_attention(q, k, v)
        return x + self.proj(y.transpose(1, 2).reshape(b, n, d))


class VoxelNet(nn.Module):
    def __init__(self, dim=48, heads=4, placement=("cuda:0", "cuda:0", "cuda:1")):
        super().__init__()
        self.placement = placement
        self.stem = nn.Conv3d(1, dim, 2, stride=2).to(placement[0])
        self.layers = nn.ModuleList(VoxelAttention(dim, heads).to(d) for d in placement)
        self.head = nn.Linear(dim, 8).to(placement[-1])

    def forward(self, volume):
        x = self.stem(volume.to(self.placement[0]))
        grid = x.shape[2:]
        x = x.flatten(2).transpose(1, 2)
        for layer, device in zip(self.layers, self.placement):
            x = layer(x.to(device), grid)
        return self.head(x.mean(1))


if __name__ == "__main__":
    torch.manual_seed(0)
    net = VoxelNet()
    logits = net(torch.rand(2, 1, 8, 8, 4))
    logits.logsumexp(-1).mean().backward()
    print(logits.shape)
