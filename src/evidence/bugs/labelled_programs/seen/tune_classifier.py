# cause: adapter-weights-on-other-device
# guilty: self.down (self.up)
# Low-rank fine-tuning of a small frozen text classifier.
import math

import torch
import torch.nn as nn
import torch.nn.functional as F


class BagClassifier(nn.Module):
    def __init__(self, vocab=120, dim=32, classes=4):
        super().__init__()
        self.table = nn.EmbeddingBag(vocab, dim, mode="mean")
        self.hidden = nn.Linear(dim, dim)
        self.mixer = nn.Linear(dim, dim)
        self.classify = nn.Linear(dim, classes)

    def forward(self, ids):
        h = F.relu(self.hidden(self.table(ids)))
        return self.classify(F.relu(self.mixer(h)))


class LowRank(nn.Module):
    def __init__(self, base: nn.Linear, rank: int, alpha: float = 8.0):
        super().__init__()
        self.base = base
        self.scale = alpha / rank
        self.down = nn.Parameter(torch.empty(rank, base.in_features))
        self.up = nn.Parameter(torch.zeros(base.out_features, rank))
        nn.init.kaiming_uniform_(self.down, a=math.sqrt(5))

    def forward(self, x):
        delta = F.linear(F.linear(x, self.down), self.up)
        return self.base(x) + self.scale * delta


def inject(model, names, rank):
    for p in model.parameters():
        p.requires_grad_(False)
    for name in names:
        setattr(model, name, LowRank(getattr(model, name), rank))
    return [p for p in model.parameters() if p.requires_grad]


def accuracy(model, ids, labels):
    model.eval()
    with torch.no_grad():
        return (model(ids).argmax(-1) == labels).float().mean().item()


def main():
    torch.manual_seed(11)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = BagClassifier().to(device)
    ids = torch.randint(120, (40, 12), device=device)
    labels = torch.randint(4, (40,), device=device)
    print("before:", accuracy(model, ids, labels))

    trainable = inject(model, ["hidden", "mixer"], rank=4)
    optimizer = torch.optim.AdamW(trainable, lr=5e-3)
    model.train()
    for _ in range(5):
        loss = F.cross_entropy(model(ids), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print("after:", accuracy(model, ids, labels))


if __name__ == "__main__":
    main()
