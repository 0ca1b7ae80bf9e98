# cause: extra-input-on-wrong-device|block-split-across-devices
# guilty: bias (position_bias)
# line: 36
# repair: in Encoder.forward move the bias together with the hidden states at the stage border (bias = bias.to(device)) OR in BiasedAttention.forward use bias.to(scores.device)
"""T5-like encoder: the first block computes the relative position bias, all later ones reuse it."""
import torch
import torch.nn as nn
import torch.nn.functional as F


def bucket(distance, buckets=16, far=32):
    half = buckets // 2
    sign = (distance > 0).long() * half
    d = distance.abs().clamp(max=far - 1)
    near = d < half // 2
    scaled = (half // 2 + (d.float().clamp_min(1) / (half // 2)).log() * 2).long().clamp(max=half - 1)
    return sign + torch.where(near, d, scaled)


class BiasedAttention(nn.Module):
    def __init__(self, dim, heads, owns_bias):
        super().__init__()
        self.heads = heads
        self.qkv, self.out = nn.Linear(dim, 3 * dim, bias=False), nn.Linear(dim, dim, bias=False)
        self.bias_table = nn.Embedding(16, heads) if owns_bias else None

    def compute_bias(self, length):
        at = torch.arange(length, device=self.bias_table.weight.device)
        return self.bias_table(bucket(at[None, :] - at[:, None])).permute(2, 0, 1).unsqueeze(0)

    def forward(self, x, bias=None):
        n, t, d = x.shape
        q, k, v = self.qkv(x).view(n, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        if bias is None:
            bias = self.compute_bias(t)
        scores = q @ k.transpose(-1, -2) + bias
        return self.out((scores.softmax(-1) @ v).transpose(1, 2).reshape(n, t, d)), bias


class Block(nn.Module):
    def __init__(self, dim, heads, first):
        super().__init__()
        self.norm, self.attn = nn.LayerNorm(dim), BiasedAttention(dim, heads, first)
        wide = 2 * dim
        self.ff = nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, wide), nn.ReLU(), nn.Linear(wide, dim))

    def forward(self, x, bias):
        out, bias = self.attn(self.norm(x), bias)
        x = x + out
        return x + self.ff(x), bias


class Encoder(nn.Module):
    def __init__(self, vocab=60, dim=32, heads=4, depth=4):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.blocks = nn.ModuleList(Block(dim, heads, i == 0) for i in range(depth))
        self.devices = ["cpu"] * depth

    def parallelize(self, plan):
        self.devices = [device for device, count in plan.items() for _ in range(count)]
        self.embed.to(self.devices[0])
        for block, device in zip(self.blocks, self.devices):
            block.to(device)
        return self

    def forward(self, ids):
        x, bias = self.embed(ids.to(self.devices[0])), None
        for block, device in zip(self.blocks, self.devices):
            x, bias = block(x.to(device), bias)
        return x


if __name__ == "__main__":
    torch.manual_seed(0)
    encoder = Encoder().parallelize({"cuda:0": 2, "cuda:1": 2})
    states = encoder(torch.randint(0, 60, (2, 14)))
    print(F.normalize(states.mean(1), dim=-1).shape, states.device)
