# cause: block-split-across-devices|device-map-incomplete-or-wrong
# guilty: x (self.mlp(self.norm2(x)))
import torch
import torch.nn as nn
from accelerate import dispatch_model


class Block(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm1 = nn.LayerNorm(dim)
        self.mix = nn.Linear(dim, dim)
        self.norm2 = nn.LayerNorm(dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))

    def forward(self, x):
        x = x + self.mix(self.norm1(x))
        x = x + self.mlp(self.norm2(x))
        return x


class LM(nn.Module):
    def __init__(self, vocab=100, dim=32, depth=3):
        super().__init__()
        self.emb = nn.Embedding(vocab, dim)
        self.blocks = nn.ModuleList(Block(dim) for _ in range(depth))
        self.norm = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, vocab, bias=False)

    def forward(self, ids):
        x = self.emb(ids)
        for b in self.blocks:
            x = b(x)
        return self.head(self.norm(x))


device_map = {
    "emb": "cuda:0",
    "blocks.0": "cuda:0",
    "blocks.1.norm1": "cuda:0", "blocks.1.mix": "cuda:0", "blocks.1.norm2": "cuda:0",
    "blocks.1.mlp": "cuda:1",
    "blocks.2": "cuda:1",
    "norm": "cuda:1", "head": "cuda:1",
}
torch.manual_seed(0)
model = dispatch_model(LM().eval(), device_map=device_map)
ids = torch.randint(0, 100, (2, 7), device="cuda:0")
with torch.no_grad():
    print(model(ids).argmax(-1).tolist())
