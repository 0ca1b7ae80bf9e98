# cause: cache-or-beam-state-on-wrong-device|tensor-created-on-wrong-device
# guilty: hyps.length (length or prev)
from typing import NamedTuple
import torch
import torch.nn as nn


class Hyps(NamedTuple):
    yseq: torch.Tensor
    score: torch.Tensor
    length: torch.Tensor


class Decoder(nn.Module):
    def __init__(self, vocab=30, dim=24):
        super().__init__()
        self.emb = nn.Embedding(vocab, dim)
        self.cell = nn.GRU(dim, dim, batch_first=True)
        self.out = nn.Linear(2 * dim, vocab)

    def forward(self, yseq, memory):
        h, _ = self.cell(self.emb(yseq))
        ctx = memory.mean(1).expand(yseq.size(0), -1)
        return self.out(torch.cat([h[:, -1], ctx], dim=1)).log_softmax(-1)


def start(beam, sos, device):
    score = torch.full((beam,), float("-inf"), device=device)
    score[0] = 0.0
    return Hyps(yseq=torch.full((beam, 1), sos, device=device), score=score, length=torch.ones(beam))


def advance(hyps, logp, beam):
    vocab = logp.size(1)
    total = (hyps.score[:, None] + logp).view(-1)
    best, flat = total.topk(beam)
    prev, tok = flat // vocab, flat % vocab
    yseq = torch.cat([hyps.yseq[prev], tok[:, None]], dim=1)
    length = hyps.length[prev] + (tok != 2).float()
    return Hyps(yseq, best, length)


@torch.no_grad()
def decode(dec, memory, beam=4, maxlen=12, penalty=0.6):
    hyps = start(beam, 1, memory.device)
    for _ in range(maxlen):
        hyps = advance(hyps, dec(hyps.yseq, memory), beam)
    norm = hyps.score / hyps.length ** penalty
    return hyps.yseq[norm.argmax()].tolist()


device = "cuda:1"
dec = Decoder().to(device).eval()
print(decode(dec, torch.randn(1, 20, 24, device=device)))
