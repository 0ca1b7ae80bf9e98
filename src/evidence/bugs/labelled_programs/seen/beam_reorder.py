# cause: cache-or-beam-state-on-wrong-device
# guilty: beam_idx
import torch
import torch.nn as nn

D0, D1 = "cuda:0", "cuda:1"


class Layer(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.kv = nn.Linear(d, 2 * d)
        self.q = nn.Linear(d, d)

    def forward(self, x, past):
        k, v = self.kv(x).unsqueeze(1).chunk(2, -1)
        if past is not None:
            k, v = torch.cat([past[0], k], 1), torch.cat([past[1], v], 1)
        w = torch.softmax((self.q(x).unsqueeze(1) * k).sum(-1), dim=1)
        return x + (w.unsqueeze(-1) * v).sum(1), (k, v)


class Model(nn.Module):
    def __init__(self, vocab=15, d=12):
        super().__init__()
        self.vocab = vocab
        self.emb = nn.Embedding(vocab, d).to(D0)
        self.l0 = Layer(d).to(D0)
        self.l1 = Layer(d).to(D1)
        self.lm = nn.Linear(d, vocab).to(D1)

    def step(self, tok, past):
        h, p0 = self.l0(self.emb(tok.to(D0)), past and past[0])
        h, p1 = self.l1(h.to(D1), past and past[1])
        return self.lm(h).log_softmax(-1), (p0, p1)


def reorder(past, beam_idx):
    return tuple(tuple(t.index_select(0, beam_idx) for t in layer) for layer in past)


@torch.no_grad()
def beam_search(model, bos, width=3, steps=5):
    tok = torch.full((width,), bos, device=D1)
    total = torch.tensor([0.0] + [-1e9] * (width - 1), device=D1)
    seqs, past = tok.unsqueeze(1), None
    for _ in range(steps):
        logp, past = model.step(tok, past)
        cand = (total.unsqueeze(1) + logp).flatten()
        total, flat = cand.topk(width)
        beam_idx = torch.div(flat, model.vocab, rounding_mode="floor")
        tok = flat % model.vocab
        seqs = torch.cat([seqs[beam_idx], tok.unsqueeze(1)], dim=1)
        past = reorder(past, beam_idx)
    return seqs, total


torch.manual_seed(9)
m = Model().eval()
s, sc = beam_search(m, bos=1)
for a, b in zip(s.tolist(), sc.tolist()):
    print(f"{b:8.3f}", a)
