# cause: generation-helper-on-wrong-device
# guilty: q.gather(1, idx.to(q.device)) (q)
"""Speculative sampling: small model proposes, big model checks."""
import torch
import torch.nn as nn


class NGramNet(nn.Module):
    def __init__(self, vocab, dim, ctx=4):
        super().__init__()
        self.ctx = ctx
        self.emb = nn.Embedding(vocab, dim)
        self.mlp = nn.Sequential(nn.Linear(ctx * dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, vocab))

    @property
    def device(self):
        return self.emb.weight.device

    def probs(self, ids):
        """ids [T] -> next-token distributions for every window, [T - ctx + 1, V]."""
        win = ids.to(self.device).unfold(0, self.ctx, 1)
        return self.mlp(self.emb(win).flatten(1)).softmax(-1)


class Speculator:
    def __init__(self, target, draft, gamma=3):
        self.target, self.draft, self.gamma = target, draft, gamma
        self.accepted = self.proposed = 0

    def propose(self, ids):
        rows = []
        for _ in range(self.gamma):
            p = self.draft.probs(ids[-self.draft.ctx:])[-1]
            nxt = torch.multinomial(p, 1)
            rows.append(p)
            ids = torch.cat([ids, nxt.to(ids.device)])
        return ids, torch.stack(rows)

    def check(self, p, q, tokens):
        idx = tokens.unsqueeze(1)
        ratio = p.gather(1, idx.to(p.device)) / q.gather(1, idx.to(q.device))
        keep = torch.rand_like(ratio) < ratio
        return int(keep.long().cumprod(0).sum())

    def step(self, ids):
        n = ids.numel()
        longer, q = self.propose(ids)
        full = self.target.probs(longer)
        p = full[-self.gamma - 1:-1]
        k = self.check(p, q, longer[n:])
        self.accepted += k
        self.proposed += self.gamma
        nxt = torch.multinomial(full[-self.gamma - 1 + k], 1)
        return torch.cat([longer[:n + k], nxt])


@torch.inference_mode()
def main():
    torch.manual_seed(5)
    big = NGramNet(40, 64).to("cuda:0")
    small = NGramNet(40, 8).to("cuda:1")
    spec = Speculator(big, small)
    ids = torch.randint(0, 40, (6,)).to(big.device)
    while ids.numel() < 30:
        ids = spec.step(ids)
    print(ids.tolist(), spec.accepted / spec.proposed)


main()
