# cause: adapter-weights-on-other-device
# guilty: self.down(x) (self.down.weight)
import argparse
import torch
import torch.nn as nn
import torch.nn.functional as F


class LowRank(nn.Module):
    def __init__(self, base: nn.Linear, r: int = 4, alpha: float = 8.0):
        super().__init__()
        self.base = base
        for p in base.parameters():
            p.requires_grad_(False)
        self.down = nn.Linear(base.in_features, r, bias=False)
        self.up = nn.Linear(r, base.out_features, bias=False)
        nn.init.zeros_(self.up.weight)
        self.scaling = alpha / r

    def forward(self, x):
        return self.base(x) + self.scaling * self.up(self.down(x))


def inject(model: nn.Module, targets: tuple[str, ...], r: int):
    hits = [n for n, m in model.named_modules()
            if isinstance(m, nn.Linear) and n.rsplit(".", 1)[-1] in targets]
    for name in hits:
        parent, _, leaf = name.rpartition(".")
        owner = model.get_submodule(parent)
        setattr(owner, leaf, LowRank(getattr(owner, leaf), r))
    return len(hits)


class Block(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.norm = nn.LayerNorm(d)
        self.fc1, self.fc2 = nn.Linear(d, 4 * d), nn.Linear(4 * d, d)

    def forward(self, x):
        return x + self.fc2(F.gelu(self.fc1(self.norm(x))))


class TextClassifier(nn.Module):
    def __init__(self, vocab=64, d=32, n=3, classes=4):
        super().__init__()
        self.emb = nn.EmbeddingBag(vocab, d)
        self.blocks = nn.Sequential(*[Block(d) for _ in range(n)])
        self.cls = nn.Linear(d, classes)

    def forward(self, ids):
        return self.cls(self.blocks(self.emb(ids)))


def pretrain(model, device, steps=5):
    model.to(device)
    opt = torch.optim.Adam(model.parameters(), 1e-3)
    for _ in range(steps):
        fit_one(model, opt, device)
    return model


def fit_one(model, opt, device):
    ids = torch.randint(0, 64, (8, 10), device=device)
    y = ids[:, 0] % 4
    loss = F.cross_entropy(model(ids), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
    return loss.item()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--device", default="cuda:0")
    ap.add_argument("--rank", type=int, default=4)
    args = ap.parse_args()
    model = pretrain(TextClassifier(), args.device)
    n = inject(model, ("fc1", "fc2"), args.rank)
    print("wrapped", n, "layers")
    opt = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], 1e-3)
    for i in range(5):
        print(i, fit_one(model, opt, args.device))


if __name__ == "__main__":
    main()
