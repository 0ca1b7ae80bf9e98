# cause: tensor-created-on-wrong-device|cache-or-beam-state-on-wrong-device
# guilty: base
import torch
import torch.nn as nn


class Captioner(nn.Module):
    def __init__(self, vocab=40, d=24):
        super().__init__()
        self.vocab = vocab
        self.emb = nn.Embedding(vocab, d)
        self.cell = nn.GRUCell(d, d)
        self.out = nn.Linear(d, vocab)

    def step(self, tok, h):
        h = self.cell(self.emb(tok), h)
        return self.out(h).log_softmax(-1), h


@torch.no_grad()
def beam_search(model, h0, width=4, steps=6, bos=1):
    n = h0.size(0)
    h = h0.repeat_interleave(width, 0)
    seqs = torch.full((n * width, 1), bos, dtype=torch.long, device=h0.device)
    scores = torch.full((n, width), -1e9, device=h0.device)
    scores[:, 0] = 0.0
    base = torch.arange(n).unsqueeze(1) * width
    for _ in range(steps):
        logp, h = model.step(seqs[:, -1], h)
        total = scores.unsqueeze(-1) + logp.view(n, width, -1)
        scores, flat = total.view(n, -1).topk(width, -1)
        parent = flat // model.vocab
        token = flat % model.vocab
        rows = (base + parent).view(-1)
        seqs = torch.cat([seqs[rows], token.view(-1, 1)], 1)
        h = h[rows]
    return seqs.view(n, width, -1), scores


device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = Captioner().to(device).eval()
image_code = torch.randn(3, 24).to(device)
seqs, scores = beam_search(model, image_code)
for s, sc in zip(seqs[:, 0].tolist(), scores[:, 0].tolist()):
    print(f"{sc:.2f}", s)
