# cause: offload-hook-bypassed
# guilty: self.embed (self.embed.weight, ids)
# line: 20
# repair: in PhraseIndex.add call the module so that its hook loads the weights: self.encoder(ids, pooled=True) with the pooling inside forward, in place of self.encoder.pooled(ids) OR call self.encoder._hf_hook.pre_forward(self.encoder) (or encoder.to(card)) before pooled
"""Phrase retrieval with two encoders that share one card through accelerate's offload hooks."""
import torch
import torch.nn as nn
import torch.nn.functional as F
from accelerate import cpu_offload_with_hook


class PhraseEncoder(nn.Module):
    def __init__(self, vocab, dim, depth=2):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim, padding_idx=0)
        self.layers = nn.ModuleList(nn.GRU(dim, dim, batch_first=True) for _ in range(depth))
        self.norm = nn.LayerNorm(dim)

    def states(self, ids):
        x = self.embed(ids)
        for layer in self.layers:
            x = x + layer(x)[0]
        return self.norm(x)

    def pooled(self, ids):
        keep = (ids != 0).unsqueeze(-1)
        return F.normalize((self.states(ids) * keep).sum(1) / keep.sum(1), dim=-1)

    def forward(self, ids):
        return self.states(ids)


class Reranker(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.score = nn.Sequential(nn.Linear(dim * 3, dim), nn.ReLU(), nn.Linear(dim, 1))

    def forward(self, q, d):
        return self.score(torch.cat([q, d, q * d], -1)).squeeze(-1)


class ModelPool:
    """Builds the models and chains their hooks: each one makes room for the next."""

    def __init__(self, card="cuda:0"):
        self.card = torch.device(card)
        self.hooks = []

    def manage(self, model):
        previous = self.hooks[-1] if self.hooks else None
        model, hook = cpu_offload_with_hook(model.eval(), self.card, prev_module_hook=previous)
        self.hooks.append(hook)
        return model

    def release(self):
        for hook in self.hooks:
            hook.offload()


class PhraseIndex:
    def __init__(self, pool, vocab=70, dim=24):
        self.pool = pool
        self.encoder = pool.manage(PhraseEncoder(vocab, dim))
        self.reranker = pool.manage(Reranker(dim))
        self.rows = []

    @torch.no_grad()
    def add(self, ids):
        ids = ids.to(self.pool.card)
        self.rows.append(self.encoder.pooled(ids).cpu())

    @torch.no_grad()
    def search(self, ids, top=3):
        query = F.normalize(self.encoder(ids.to(self.pool.card)).mean(1), dim=-1)
        table = torch.cat(self.rows).to(query.device)
        near = (query @ table.t()).topk(top, dim=-1).indices
        q = query[:, None].expand(-1, top, -1)
        order = self.reranker(q, table[near]).argsort(-1, descending=True)
        return near.gather(1, order).tolist()


if __name__ == "__main__":
    torch.manual_seed(0)
    pool = ModelPool()
    index = PhraseIndex(pool)
    for _ in range(3):
        index.add(torch.randint(1, 70, (4, 6)))
    print(index.search(torch.randint(1, 70, (2, 5))))
    pool.release()
