# cause: block-split-across-devices|device-map-incomplete-or-wrong
# guilty: x (self.ff, the residual)
# line: 21
# repair: let units() hand out whole blocks (blocks.i as one unit, the residual block must stay on one card) instead of their children OR use infer_auto_device_map with no_split_module_classes=["Block"]
"""A memory planner that fills one card after the other, and accelerate to carry the plan out."""
import torch
import torch.nn as nn
import torch.nn.functional as F
from accelerate import dispatch_model


class Block(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.mix = nn.Sequential(nn.LayerNorm(dim), nn.GRU(dim, dim, batch_first=True))
        wide = 4 * dim
        self.ff = nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, wide), nn.GELU(), nn.Linear(wide, dim))

    def forward(self, x):
        x = x + self.mix(x)[0]
        x = x + self.ff(x)
        return x


class Encoder(nn.Module):
    def __init__(self, vocab=50, dim=24, depth=3, classes=5):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.blocks = nn.ModuleList(Block(dim) for _ in range(depth))
        self.out = nn.Linear(dim, classes)

    def forward(self, ids):
        x = self.embed(ids)
        for block in self.blocks:
            x = block(x)
        return self.out(x.mean(1))


def size_of(module):
    return sum(p.numel() * p.element_size() for p in module.parameters())


class Planner:
    def __init__(self, cards, depth=3):
        self.cards, self.depth = cards, depth

    def units(self, model, prefix="", level=1):
        """Names of the modules that are placed, in the order of the forward pass."""
        for name, child in model.named_children():
            if isinstance(child, nn.ModuleList) or level < self.depth and type(child).__name__ == "Block":
                yield from self.units(child, f"{prefix}{name}.", level + 1)
            else:
                yield f"{prefix}{name}", child

    def plan(self, model):
        budget = size_of(model) / len(self.cards)
        placed, used, at = {}, 0, 0
        for name, module in self.units(model):
            if used + size_of(module) / 2 > budget and at + 1 < len(self.cards):
                used, at = 0, at + 1
            placed[name] = self.cards[at]
            used += size_of(module)
        return placed


class Classifier:
    def __init__(self, cards):
        model = Encoder()
        self.entry = cards[0]
        self.model = dispatch_model(model, device_map=Planner(cards, depth=4).plan(model))
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=2e-3)

    def step(self, ids, labels):
        logits = self.model(ids.to(self.entry))
        loss = F.cross_entropy(logits, labels.to(logits.device))
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.item()


if __name__ == "__main__":
    torch.manual_seed(0)
    classifier = Classifier(["cuda:0", "cuda:1"])
    for _ in range(3):
        print(classifier.step(torch.randint(0, 50, (4, 10)), torch.randint(0, 5, (4,))))
