# cause: cache-or-beam-state-on-wrong-device|tensor-created-on-wrong-device
# guilty: scores
import torch
import torch.nn as nn


class Scorer(nn.Module):
    def __init__(self, vocab=12, d=8):
        super().__init__()
        self.emb = nn.Embedding(vocab, d)
        self.out = nn.Linear(d, vocab)

    def forward(self, last):
        return self.out(self.emb(last)).log_softmax(-1)


@torch.no_grad()
def beam(model, start, width=3, steps=4):
    device = next(model.parameters()).device
    batch = start.size(0)
    seqs = start.view(batch, 1, 1).repeat(1, width, 1)
    scores = torch.full((batch, width), -1e9)
    scores[:, 0] = 0.0
    base = torch.arange(batch, device=device).unsqueeze(1)
    for _ in range(steps):
        lp = model(seqs[:, :, -1])
        joint = scores.unsqueeze(-1) + lp
        scores, flat = joint.flatten(1).topk(width, -1)
        parent, token = flat // lp.size(-1), flat % lp.size(-1)
        seqs = torch.cat([seqs[base, parent], token.unsqueeze(-1)], -1)
    return seqs[:, 0], scores[:, 0]


if __name__ == "__main__":
    torch.manual_seed(2)
    net = Scorer().to("cuda:1")
    seq, sc = beam(net, torch.tensor([1, 4], device="cuda:1"))
    print(seq.tolist(), sc.tolist())
