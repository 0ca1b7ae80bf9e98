# cause: block-split-across-devices|device-map-incomplete-or-wrong
# guilty: mixed (x)
# line: 36
# repair: in even_map give whole blocks, "blocks.{i}": 0 or 1, never parts of one block OR infer the map with no_split_module_classes=["ParallelBlock"]
"""Spread a small encoder over two cards by hand and classify sentences with it."""
import torch
import torch.nn as nn
from accelerate import dispatch_model


class Attention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        mixed = nn.functional.scaled_dot_product_attention(q, k, v)
        return self.proj(mixed.transpose(1, 2).reshape(b, n, d))


class ParallelBlock(nn.Module):
    def __init__(self, dim=32, heads=4):
        super().__init__()
        self.norm1 = nn.LayerNorm(dim)
        self.attn = Attention(dim, heads)
        self.norm2 = nn.LayerNorm(dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 64), nn.GELU(), nn.Linear(64, dim))

    def forward(self, x):
        x = x + self.attn(self.norm1(x))
        mixed = self.mlp(self.norm2(x))
        return x + mixed


class SentenceClassifier(nn.Module):
    def __init__(self, vocab=100, dim=32, depth=5, classes=3):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.blocks = nn.ModuleList(ParallelBlock(dim) for _ in range(depth))
        self.norm = nn.LayerNorm(dim)
        self.classify = nn.Linear(dim, classes)

    def forward(self, ids):
        x = self.embed(ids)
        for block in self.blocks:
            x = block(x)
        return self.classify(self.norm(x).mean(1))


def even_map(model):
    """Half of the units to each card, in the order of the modules."""
    units = ["embed"]
    for i, block in enumerate(model.blocks):
        units += [f"blocks.{i}.{name}" for name, _ in block.named_children()]
    units += ["norm", "classify"]
    half = len(units) // 2 + 1
    return {name: 0 if i < half else 1 for i, name in enumerate(units)}


def main():
    torch.manual_seed(0)
    model = SentenceClassifier().eval()
    model = dispatch_model(model, device_map=even_map(model))
    ids = torch.randint(0, 100, (6, 14)).to("cuda:0")
    with torch.no_grad():
        scores = model(ids).softmax(-1)
    for row in scores.tolist():
        print([round(v, 3) for v in row])


if __name__ == "__main__":
    main()
