# cause: input-not-on-embedding-device
# guilty: ids
from dataclasses import dataclass

import torch
from torch import nn


@dataclass
class Encoded:
    ids: torch.Tensor

    def to(self, device):
        return Encoded(self.ids.to(device))


class CharTokenizer:
    def __init__(self, alphabet):
        self.table = {c: i + 1 for i, c in enumerate(alphabet)}

    def __call__(self, texts):
        n = max(map(len, texts))
        rows = [[self.table.get(c, 0) for c in t] + [0] * (n - len(t)) for t in texts]
        return Encoded(torch.tensor(rows))


class Reader(nn.Module):
    def __init__(self, n, d=24, classes=3):
        super().__init__()
        self.emb = nn.Embedding(n, d, padding_idx=0)
        self.rnn = nn.GRU(d, d, batch_first=True)
        self.out = nn.Linear(d, classes)

    def forward(self, ids):
        _, h = self.rnn(self.emb(ids))
        return self.out(h[-1])


tok = CharTokenizer("abcdefghijklmnopqrstuvwxyz ")
net = Reader(28).to("cuda:0")
opt = torch.optim.SGD(net.parameters(), lr=0.1)
corpus = [(["good day", "bad luck"], [0, 1]), (["so so", "fine thing"], [2, 0])]
for texts, kinds in corpus * 3:
    enc = tok(texts)
    enc.to("cuda:0")
    logits = net(enc.ids)
    loss = nn.functional.cross_entropy(logits, torch.tensor(kinds, device="cuda:0"))
    opt.zero_grad()
    loss.backward()
    opt.step()
