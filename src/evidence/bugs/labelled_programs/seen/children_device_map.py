# cause: device-map-incomplete-or-wrong|rope-table-on-wrong-device
# guilty: self.inv_freq (self.inv_freq[None, :])
"""Rotary transformer dispatched over two GPUs, scored on random documents."""
import torch
import torch.nn as nn
import torch.nn.functional as F
from accelerate import dispatch_model


class Rotary(nn.Module):
    def __init__(self, head_dim, base=10000.0):
        super().__init__()
        inv_freq = base ** (-torch.arange(0, head_dim, 2).float() / head_dim)
        self.register_buffer("inv_freq", inv_freq, persistent=False)

    def forward(self, positions):
        angles = positions[:, None].float() * self.inv_freq[None, :]
        angles = torch.cat([angles, angles], dim=-1)
        return angles.cos(), angles.sin()


def rotate(x, cos, sin):
    a, b = x.chunk(2, dim=-1)
    return x * cos + torch.cat([-b, a], dim=-1) * sin


class Layer(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.out = nn.Linear(dim, dim, bias=False)
        self.ff = nn.Sequential(nn.Linear(dim, 4 * dim), nn.SiLU(), nn.Linear(4 * dim, dim))

    def forward(self, x, rope):
        b, t, d = x.shape
        cos, sin = rope
        q, k, v = self.qkv(self.norm1(x)).view(b, t, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(rotate(q, cos, sin), rotate(k, cos, sin), v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(b, t, d))
        return x + self.ff(self.norm2(x))


class RotaryLM(nn.Module):
    def __init__(self, vocab=90, dim=32, heads=4, depth=6):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.rotary = Rotary(dim // heads)
        self.layers = nn.ModuleList(Layer(dim, heads) for _ in range(depth))
        self.norm = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, vocab, bias=False)

    def forward(self, ids):
        x = self.embed(ids)
        rope = self.rotary(torch.arange(ids.size(1), device=ids.device))
        for layer in self.layers:
            x = layer(x, rope)
        return self.head(self.norm(x))


def make_device_map(model, gpus=(0, 1)):
    """Whole layers in order, the first half of them on the first GPU."""
    depth = len(model.layers)
    device_map = {}
    for name, child in model.named_children():
        if not any(True for _ in child.parameters()):
            continue
        if name == "layers":
            for i in range(depth):
                device_map[f"layers.{i}"] = gpus[i * len(gpus) // depth]
        else:
            device_map[name] = gpus[0] if name == "embed" else gpus[-1]
    return device_map


@torch.no_grad()
def score(model, documents, device):
    losses = []
    for ids in documents:
        ids = ids.to(device)
        logits = model(ids[:, :-1])
        losses.append(F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten()).item())
    return sum(losses) / len(losses)


def main():
    torch.manual_seed(0)
    model = RotaryLM().eval()
    model = dispatch_model(model, device_map=make_device_map(model))
    documents = [torch.randint(0, 90, (2, n)) for n in (12, 20, 17)]
    print(f"mean loss {score(model, documents, 'cuda:0'):.3f}")


if __name__ == "__main__":
    main()
