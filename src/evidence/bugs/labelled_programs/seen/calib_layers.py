# cause: rope-table-on-wrong-device|extra-input-on-wrong-device
# guilty: cos (sin or position)
"""Collect per-channel activation ranges layer by layer, one layer on the GPU at a time."""
import torch
from torch import nn


def position_tables(n, dim, base=10000.0):
    inv = base ** (-torch.arange(0, dim, 2).float() / dim)
    angle = torch.outer(torch.arange(n).float(), inv).repeat(1, 2)
    return angle.cos(), angle.sin()


def turn(t, cos, sin):
    a, b = t.chunk(2, dim=-1)
    return t * cos + torch.cat([-b, a], dim=-1) * sin


class Block(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.norm = nn.LayerNorm(dim)
        self.qkv = nn.Linear(dim, dim * 3)
        self.out = nn.Linear(dim, dim)

    def forward(self, x, mask=None, position=None):
        b, n, d = x.shape
        q, k, v = self.qkv(self.norm(x)).view(b, n, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        q, k = turn(q, *position), turn(k, *position)
        y = nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return x + self.out(y.transpose(1, 2).reshape(b, n, d))


class Model(nn.Module):
    def __init__(self, vocab=64, dim=32, heads=4, depth=3):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.blocks = nn.ModuleList(Block(dim, heads) for _ in range(depth))
        self.head_dim = dim // heads


def move(value, device):
    return value.to(device) if isinstance(value, torch.Tensor) else value


@torch.no_grad()
def calibrate(model, samples, device):
    n = samples.size(1)
    hidden = model.embed(samples)
    extras = {
        "mask": torch.ones(n, n, dtype=torch.bool).tril(),
        "position": position_tables(n, model.head_dim),
    }
    ranges = []
    for block in model.blocks:
        block.to(device)
        seen = []
        hook = block.out.register_forward_hook(lambda m, i, o: seen.append(i[0].abs().amax((0, 1))))
        kwargs = {name: move(value, device) for name, value in extras.items()}
        hidden = block(hidden.to(device), **kwargs).cpu()
        hook.remove()
        block.cpu()
        ranges.append(seen[0].cpu())
    return ranges


if __name__ == "__main__":
    torch.manual_seed(24)
    model = Model().eval()
    found = calibrate(model, torch.randint(64, (3, 10)), torch.device("cuda:0"))
    for i, r in enumerate(found):
        print(f"block {i}: max {r.max():.4f} mean {r.mean():.4f}")
