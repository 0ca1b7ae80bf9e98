# cause: lm-head-or-tied-weight-split
# guilty: self.tok.weight
import torch
import torch.nn.functional as F
from torch import nn


class Piped(nn.Module):
    def __init__(self, vocab=120, d=32, n=4):
        super().__init__()
        self.tok = nn.Embedding(vocab, d).to("cuda:0")
        layers = [nn.TransformerEncoderLayer(d, 4, 64, batch_first=True, dropout=0.0) for _ in range(n)]
        self.front = nn.Sequential(*layers[: n // 2]).to("cuda:0")
        self.back = nn.Sequential(*layers[n // 2 :]).to("cuda:1")
        self.norm = nn.LayerNorm(d).to("cuda:1")

    def forward(self, ids):
        h = self.front(self.tok(ids))
        h = self.norm(self.back(h.to("cuda:1")))
        return F.linear(h, self.tok.weight)


def micro(batch, n):
    return batch.chunk(n)


model = Piped()
opt = torch.optim.AdamW(model.parameters(), lr=3e-4)
for _ in range(2):
    batch = torch.randint(0, 120, (8, 17))
    for part in micro(batch, 2):
        src = part[:, :-1].to("cuda:0")
        tgt = part[:, 1:].to("cuda:1")
        logits = model(src)
        loss = F.cross_entropy(logits.flatten(0, 1), tgt.flatten())
        (loss / 2).backward()
    opt.step()
    opt.zero_grad()
