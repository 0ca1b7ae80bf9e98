# cause: generation-helper-on-wrong-device|cache-or-beam-state-on-wrong-device
# guilty: self.scores
import torch
from torch import nn


class Seq2Seq(nn.Module):
    def __init__(self, vocab=25, d=32):
        super().__init__()
        self.vocab = vocab
        self.src = nn.Embedding(vocab, d)
        self.tgt = nn.Embedding(vocab, d)
        self.enc = nn.GRU(d, d, batch_first=True)
        self.dec = nn.GRUCell(d, d)
        self.out = nn.Linear(d, vocab)

    def encode(self, ids):
        return self.enc(self.src(ids))[1][0]

    def step(self, tok, h):
        h = self.dec(self.tgt(tok), h)
        return self.out(h).log_softmax(-1), h


class Beams:
    def __init__(self, width, bos, eos):
        self.width, self.bos, self.eos = width, bos, eos
        self.scores = torch.full((width,), -1e9)
        self.scores[0] = 0.0
        self.parents, self.tokens = [], []

    def start(self, device):
        return torch.full((self.width,), self.bos, dtype=torch.long, device=device)

    def advance(self, logp):
        total = self.scores.unsqueeze(1) + logp
        best, flat = total.view(-1).topk(self.width)
        parent = torch.div(flat, logp.size(1), rounding_mode="floor")
        token = flat % logp.size(1)
        self.scores = best
        self.parents.append(parent)
        self.tokens.append(token)
        return parent, token

    def finished(self):
        return bool((self.tokens[-1] == self.eos).all())

    def best(self):
        seq, i = [], int(self.scores.argmax())
        for p, t in zip(reversed(self.parents), reversed(self.tokens)):
            seq.append(int(t[i]))
            i = int(p[i])
        return seq[::-1]


@torch.no_grad()
def translate(model, sentence, width=4, limit=12, bos=1, eos=2):
    dev = model.out.weight.device
    h = model.encode(torch.tensor([sentence], device=dev)).expand(width, -1)
    beams = Beams(width, bos, eos)
    tok = beams.start(dev)
    for _ in range(limit):
        logp, h = model.step(tok, h)
        parent, tok = beams.advance(logp)
        h = h[parent]
        if beams.finished():
            break
    return beams.best()


if __name__ == "__main__":
    torch.manual_seed(0)
    net = Seq2Seq().to("cuda:0").eval()
    for s in ([5, 6, 7], [9, 3, 3, 8]):
        print(s, "->", translate(net, s))
