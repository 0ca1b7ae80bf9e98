# cause: lm-head-or-tied-weight-split
# guilty: ?
import torch
from torch import nn


class Writer(nn.Module):
    def __init__(self, words=30, dim=8):
        super().__init__()
        self.words = nn.Embedding(words, dim).to("cuda:0")
        self.head = nn.Linear(dim, words).to("cuda:1")

    def forward(self, ids):
        return self.head(self.words(ids).mean(1).to("cuda:1"))


@torch.no_grad()
def write(model, ids, count):
    for _ in range(count):
        token = model(ids).argmax(-1, keepdim=True)
        ids = torch.cat([ids, token], dim=1)
    return ids


print(write(Writer(), torch.tensor([[3, 4]], device="cuda:0"), 4).tolist())
