# cause: loss-or-label-on-other-device
import torch
from accelerate import dispatch_model
from torch import nn


class Tagger(nn.Module):
    def __init__(self, vocabulary=32, width=8, tags=4):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.body = nn.Sequential(nn.Linear(width, width), nn.GELU())
        self.head = nn.Linear(width, tags)

    def forward(self, ids, labels):
        logits = self.head(self.body(self.embed(ids)))
        criterion = nn.CrossEntropyLoss()
        return criterion(logits, labels)


device_map = {"embed": 0, "body": 0, "head": 1}
model = dispatch_model(Tagger(), device_map=device_map, force_hooks=True)
print(model(torch.arange(4, device="cuda:0"), torch.arange(4, device="cuda:0")))
