# cause: module-left-on-other-device
# guilty: self.pool[name]
import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(17)


def ffn(dim, mult):
    return nn.Sequential(nn.Linear(dim, mult * dim), nn.GELU(), nn.Linear(mult * dim, dim))


class Switch(nn.Module):
    def __init__(self, dim=12, names=("a", "b", "c", "d")):
        super().__init__()
        self.names = names
        self.norm = nn.LayerNorm(dim)
        self.router = nn.Linear(dim, len(names), bias=False)
        self.pool = {name: ffn(dim, 2) for name in names}

    def forward(self, x):
        flat = self.norm(x).flatten(0, 1)
        weight, choice = self.router(flat).softmax(-1).max(-1)
        result = torch.zeros_like(flat)
        for number, name in enumerate(self.names):
            mine = (choice == number).nonzero().squeeze(1)
            done = self.pool[name](flat[mine])
            result = result.index_add(0, mine, done * weight[mine, None])
        return x + result.view_as(x)


class Tagger(nn.Module):
    def __init__(self, vocab=40, dim=12, tags=5):
        super().__init__()
        self.words = nn.Embedding(vocab, dim)
        self.layers = nn.Sequential(Switch(dim), Switch(dim))
        self.tags = nn.Linear(dim, tags)

    def forward(self, ids):
        return self.tags(self.layers(self.words(ids)))


device = "cuda:1"
tagger = Tagger().to(device)
opt = torch.optim.SGD(tagger.parameters(), lr=0.1)
ids = torch.randint(0, 40, (3, 7), device=device)
gold = ids % 5
for step in range(2):
    loss = F.cross_entropy(tagger(ids).flatten(0, 1), gold.flatten())
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(loss.item())
