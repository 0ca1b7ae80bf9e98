# cause: loss-or-label-on-other-device
# guilty: answer
"""How likely a model over two GPUs finds each answer; its last layer is on the second one."""

import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(30, 12).to("cuda:0")
        self.head = nn.Linear(12, 30).to("cuda:1")

    def forward(self, ids):
        return self.head(self.embedding(ids).cumsum(1).to("cuda:1"))


class Scorer:
    def __init__(self, model):
        self.model = model

    @property
    def device(self):
        return next(self.model.parameters()).device

    @torch.no_grad()
    def likelihood(self, question, text):
        answer = torch.tensor(text).to(self.device)
        ids = torch.tensor(question + text).to(self.device)[None, :-1]
        logs = torch.log_softmax(self.model(ids)[0, -len(text) :], -1)
        return torch.gather(logs, 1, answer[:, None]).sum().item()


scorer = Scorer(Model())
print([scorer.likelihood([1, 2], text) for text in ([3, 4], [5, 6, 7])])
