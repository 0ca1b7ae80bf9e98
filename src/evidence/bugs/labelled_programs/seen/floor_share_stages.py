# cause: device-ordinal-out-of-range|device-map-incomplete-or-wrong
# guilty: device (plan[i], self.plan, layer)
# line: 52
# repair: in Planner.plan round the share up, `share = -(-depth // self.gpus)`, OR clamp the index, `min(i // share, self.gpus - 1)`
"""Spread an odd number of decoder layers over the GPUs of a box with a planner."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class Planner:
    def __init__(self, gpus):
        self.gpus = gpus

    def plan(self, depth):
        share = max(1, depth // self.gpus)
        return [f"cuda:{i // share}" for i in range(depth)]


class DecoderLayer(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.proj = nn.Linear(dim, dim, bias=False)
        self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = (z.view(b, t, self.heads, -1).transpose(1, 2) for z in self.qkv(self.norm1(x)).chunk(3, -1))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(y.transpose(1, 2).reshape(b, t, d))
        return x + self.mlp(self.norm2(x))


class Decoder(nn.Module):
    def __init__(self, vocab, dim, depth, heads=4, max_len=64):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.positions = nn.Embedding(max_len, dim)
        self.layers = nn.ModuleList(DecoderLayer(dim, heads) for _ in range(depth))
        self.norm = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, vocab, bias=False)
        self.plan = None

    def apply_plan(self, plan):
        self.plan = [torch.device(d) for d in plan]
        self.embed.to(self.plan[0])
        self.positions.to(self.plan[0])
        for layer, device in zip(self.layers, self.plan):
            layer.to(device)
        self.norm.to(self.plan[-1])
        self.head.to(self.plan[-1])
        return self

    def forward(self, ids):
        ids = ids.to(self.plan[0])
        x = self.embed(ids) + self.positions(torch.arange(ids.shape[1], device=ids.device))
        for layer, device in zip(self.layers, self.plan):
            x = layer(x.to(device))
        return self.head(self.norm(x))


class Experiment:
    def __init__(self, gpus, vocab=80, dim=32, depth=7):
        self.model = Decoder(vocab, dim, depth).apply_plan(Planner(gpus).plan(depth))
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)

    def step(self, ids):
        logits = self.model(ids[:, :-1])
        loss = F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten().to(logits.device))
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.item()


if __name__ == "__main__":
    torch.manual_seed(0)
    experiment = Experiment(gpus=2)
    for step in range(3):
        print(step, experiment.step(torch.randint(0, 80, (4, 24))))
