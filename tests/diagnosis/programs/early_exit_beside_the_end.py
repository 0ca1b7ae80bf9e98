# cause: generation-helper-on-wrong-device|lm-head-or-tied-weight-split
# guilty: early_scores
"""A dispatched model gives its last scores back on the first GPU; its loop calls the head for an early layer."""

import torch
from accelerate import dispatch_model
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(30, 16)
        self.first = nn.Linear(16, 16)
        self.second = nn.Linear(16, 16)
        self.head = nn.Linear(16, 30)

    def forward(self, ids):
        early = self.first(self.embedding(ids)).tanh()
        return self.head(self.second(early).tanh()), early

    @torch.no_grad()
    def generate(self, ids, steps=3):
        for _ in range(steps):
            scores, early = self(ids)
            early_scores = self.head(early)[:, -1].log_softmax(-1)
            contrast = scores[:, -1].log_softmax(-1) - early_scores
            ids = torch.cat([ids, contrast.argmax(-1, keepdim=True).to(ids.device)], 1)
        return ids


model = dispatch_model(Model().eval(), {"embedding": 0, "first": 0, "second": 1, "head": 1})
print(model.generate(torch.tensor([[1, 2, 3]], device="cuda:0")).shape)
