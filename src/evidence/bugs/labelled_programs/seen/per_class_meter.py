# cause: metric-state-device
# guilty: self.hits (hits or self.total)
from dataclasses import dataclass, field

import torch
import torch.nn as nn


@dataclass
class PerClassAccuracy:
    num_classes: int
    hits: torch.Tensor = field(init=False)
    total: torch.Tensor = field(init=False)

    def __post_init__(self):
        self.hits = torch.zeros(self.num_classes)
        self.total = torch.zeros(self.num_classes)

    def update(self, logits, labels):
        correct = (logits.argmax(-1) == labels).float()
        self.hits.scatter_add_(0, labels, correct)
        self.total.scatter_add_(0, labels, torch.ones_like(correct))

    def compute(self):
        return (self.hits / self.total.clamp_min(1)).mean().item()

    def reset(self):
        self.hits.zero_()
        self.total.zero_()


class TextCNN(nn.Module):
    def __init__(self, vocab, classes):
        super().__init__()
        self.emb = nn.Embedding(vocab, 48)
        self.convs = nn.ModuleList(nn.Conv1d(48, 32, k, padding=k // 2) for k in (3, 5))
        self.out = nn.Linear(64, classes)

    def forward(self, ids):
        x = self.emb(ids).transpose(1, 2)
        return self.out(torch.cat([torch.relu(c(x)).amax(-1) for c in self.convs], -1))


def evaluate(model, batches, meter, device):
    model.eval()
    meter.reset()
    with torch.no_grad():
        for ids, labels in batches:
            ids, labels = ids.to(device), labels.to(device)
            meter.update(model(ids), labels)
    return meter.compute()


device = torch.device("cuda:0")
model = TextCNN(500, 4).to(device)
meter = PerClassAccuracy(num_classes=4)
batches = [(torch.randint(0, 500, (8, 20)), torch.randint(0, 4, (8,))) for _ in range(3)]
print("balanced accuracy", evaluate(model, batches, meter, device))
