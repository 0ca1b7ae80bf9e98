# cause: rope-table-on-wrong-device
# guilty: cos
import torch
import torch.nn as nn


def rotate_half(x):
    a, b = x.chunk(2, dim=-1)
    return torch.cat((-b, a), dim=-1)


def apply_rope(x, cos, sin):
    return x * cos + rotate_half(x) * sin


class Rope:
    """Not a module: nothing to learn, nothing to save."""

    def __init__(self, dim, max_len, device):
        inv = 1.0 / 100 ** (torch.arange(0, dim, 2, device=device).float() / dim)
        angles = torch.outer(torch.arange(max_len, device=device).float(), inv)
        angles = torch.cat([angles, angles], dim=-1)
        self.cos, self.sin = angles.cos(), angles.sin()

    def __call__(self, n):
        return self.cos[:n], self.sin[:n]


class DecoderLayer(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.norm = nn.LayerNorm(d)
        self.q, self.k, self.v = nn.Linear(d, d), nn.Linear(d, d), nn.Linear(d, d)
        self.mlp = nn.Sequential(nn.LayerNorm(d), nn.Linear(d, 2 * d), nn.SiLU(), nn.Linear(2 * d, d))

    def forward(self, h, cos, sin):
        x = self.norm(h)
        q, k = apply_rope(self.q(x), cos, sin), apply_rope(self.k(x), cos, sin)
        h = h + nn.functional.scaled_dot_product_attention(q, k, self.v(x), is_causal=True)
        return h + self.mlp(h)


class Decoder(nn.Module):
    def __init__(self, vocab=50, d=16, per_gpu=1, devices=("cuda:0", "cuda:1")):
        super().__init__()
        self.devices = [torch.device(x) for x in devices]
        self.embed = nn.Embedding(vocab, d).to(self.devices[0])
        self.stages = nn.ModuleList(
            nn.ModuleList(DecoderLayer(d) for _ in range(per_gpu)).to(dev) for dev in self.devices)
        self.rope = Rope(d, 128, self.devices[0])
        self.head = nn.Linear(d, vocab).to(self.devices[-1])

    def forward(self, ids):
        h = self.embed(ids.to(self.devices[0]))
        cos, sin = self.rope(ids.size(1))
        for dev, stage in zip(self.devices, self.stages):
            h = h.to(dev)
            for layer in stage:
                h = layer(h, cos, sin)
        return self.head(h)


if __name__ == "__main__":
    torch.manual_seed(0)
    net = Decoder()
    ids = torch.randint(0, 50, (2, 10))
    logits = net(ids)
    target = ids.roll(-1, dims=1).to(logits.device)
    loss = nn.functional.cross_entropy(logits.flatten(0, 1), target.flatten())
    loss.backward()
    print(loss.item(), sum(p.grad.norm().item() for p in net.parameters() if p.grad is not None))
