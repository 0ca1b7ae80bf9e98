# cause: loss-or-label-on-other-device
# guilty: aux (sum(aux))
import torch
import torch.nn as nn
import torch.nn.functional as F


class MoELayer(nn.Module):
    def __init__(self, d, n_exp, topk=2):
        super().__init__()
        self.router = nn.Linear(d, n_exp, bias=False)
        self.experts = nn.ModuleList(nn.Sequential(nn.Linear(d, 2 * d), nn.ReLU(), nn.Linear(2 * d, d)) for _ in range(n_exp))
        self.k = topk

    def forward(self, x):
        flat = x.reshape(-1, x.size(-1))
        probs = self.router(flat).softmax(-1)
        w, idx = probs.topk(self.k, -1)
        out = torch.zeros_like(flat)
        for e, expert in enumerate(self.experts):
            rows, slot = torch.where(idx == e)
            if rows.numel():
                out.index_add_(0, rows, expert(flat[rows]) * w[rows, slot, None])
        frac = F.one_hot(idx[:, 0], probs.size(-1)).float().mean(0)
        balance = probs.size(-1) * (frac * probs.mean(0)).sum()
        return x + out.view_as(x), balance


class MoEStack(nn.Module):
    def __init__(self, d=24, depth=4, experts=4, vocab=32):
        super().__init__()
        self.emb = nn.Embedding(vocab, d)
        self.layers = nn.ModuleList(MoELayer(d, experts) for _ in range(depth))
        self.head = nn.Linear(d, vocab)

    def shard(self, gpus):
        self.emb.to(gpus[0])
        for i, l in enumerate(self.layers):
            l.to(gpus[i * len(gpus) // len(self.layers)])
        self.head.to(gpus[-1])
        return self

    def forward(self, ids):
        x = self.emb(ids.to(self.emb.weight.device))
        aux = []
        for l in self.layers:
            x, b = l(x.to(l.router.weight.device))
            aux.append(b)
        return self.head(x), aux


def objective(logits, ids, aux, coef=0.01):
    target = ids[:, 1:].to(logits.device)
    loss = F.cross_entropy(logits[:, :-1].transpose(1, 2), target)
    return loss + coef * sum(aux)


torch.manual_seed(0)
model = MoEStack().shard(["cuda:0", "cuda:1"])
opt = torch.optim.Adam(model.parameters(), 1e-3)
for _ in range(3):
    ids = torch.randint(0, 32, (4, 10))
    logits, aux = model(ids)
    loss = objective(logits, ids, aux)
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(loss.item())
