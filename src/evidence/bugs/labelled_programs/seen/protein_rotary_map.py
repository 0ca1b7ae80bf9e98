# cause: device-map-incomplete-or-wrong|rope-table-on-wrong-device
# guilty: self.inv_freq (inv_freq)
# line: 21
# repair: in hand_map add the module without weights, `device_map["rotary"] = 0`, OR in Rotary.forward use `self.inv_freq.to(positions.device)`
"""Embed protein sequences with a rotary encoder on two cards, map written by hand."""
import torch
import torch.nn as nn
import torch.nn.functional as F
from accelerate import dispatch_model

ALPHABET = "-ACDEFGHIKLMNPQRSTVWY"


class Rotary(nn.Module):
    def __init__(self, head_dim, base=10000.0):
        super().__init__()
        inv_freq = base ** (-torch.arange(0, head_dim, 2).float() / head_dim)
        self.register_buffer("inv_freq", inv_freq, persistent=False)

    def forward(self, positions):
        angles = positions.float()[:, None] * self.inv_freq
        return torch.cat([angles, angles], dim=-1)


def rotate(x, angles):
    half = x.shape[-1] // 2
    turned = torch.cat([-x[..., half:], x[..., :half]], dim=-1)
    return x * angles.cos() + turned * angles.sin()


class EncoderLayer(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.qkv, self.proj = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))

    def forward(self, x, angles):
        b, t, d = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(b, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(rotate(q, angles), rotate(k, angles), v)
        x = x + self.proj(y.transpose(1, 2).reshape(b, t, d))
        return x + self.mlp(self.norm2(x))


class ProteinEncoder(nn.Module):
    def __init__(self, dim=32, heads=4, depth=4):
        super().__init__()
        self.embed = nn.Embedding(len(ALPHABET), dim, padding_idx=0)
        self.rotary = Rotary(dim // heads)
        self.layers = nn.ModuleList(EncoderLayer(dim, heads) for _ in range(depth))
        self.norm = nn.LayerNorm(dim)

    def forward(self, ids):
        x = self.embed(ids)
        angles = self.rotary(torch.arange(ids.shape[1], device=ids.device))
        for layer in self.layers:
            x = layer(x, angles)
        return self.norm(x).mean(1)


def hand_map(depth):
    device_map = {"embed": 0}
    for i in range(depth):
        device_map[f"layers.{i}"] = 0 if i < depth // 2 else 1
    device_map["norm"] = 1
    return device_map


def encode(sequences):
    width = max(map(len, sequences))
    return torch.tensor([[ALPHABET.index(c) for c in s.ljust(width, "-")] for s in sequences])


def main():
    torch.manual_seed(0)
    model = dispatch_model(ProteinEncoder().eval(), device_map=hand_map(4), main_device=0)
    ids = encode(["MKTAYIAKQR", "MKLVFFAEDVG", "GAVLIPFMW"])
    with torch.no_grad():
        vectors = F.normalize(model(ids), dim=-1)
    print(vectors @ vectors.t())


if __name__ == "__main__":
    main()
