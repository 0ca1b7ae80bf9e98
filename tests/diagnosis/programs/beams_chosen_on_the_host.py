# cause: cache-or-beam-state-on-wrong-device
import torch
from torch import nn


class Decoder(nn.Module):
    def __init__(self, d=8, words=12):
        super().__init__()
        self.emb, self.cell, self.out = nn.Embedding(words, d), nn.GRUCell(d, d), nn.Linear(d, words)

    def forward(self, ids, h):
        h = self.cell(self.emb(ids), h)
        return self.out(h).log_softmax(-1), h


@torch.no_grad()
def search(net, device, width=3, steps=4):
    h = torch.zeros(width, 8, device=device)
    ids = torch.zeros(width, dtype=torch.long, device=device)
    scores = torch.zeros(width, device=device)
    for _ in range(steps):
        logp, h = net(ids, h)
        total = (scores[:, None] + logp).flatten().cpu()
        scores, flat = total.topk(width)
        beams = flat // logp.size(-1)
        ids = (flat % logp.size(-1)).to(device)
        scores = scores.to(device)
        h = h.index_select(0, beams)
    return ids


print(search(Decoder().to("cuda:0"), torch.device("cuda:0")))
