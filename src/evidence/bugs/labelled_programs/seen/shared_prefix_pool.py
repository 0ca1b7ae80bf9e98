# cause: cache-or-beam-state-on-wrong-device|weights-moved-away-by-manager
# guilty: past (past[0], entry, self.entries)
# line: 20
# repair: in PrefixPool.lookup bring the entry back before returning it (k.to(device), v.to(device) for the device of each layer), since trim() put it on the host
"""Request server that shares the computed prefix of a system prompt between requests."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class Block(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.qkv, self.proj = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.norm = nn.LayerNorm(dim)

    def forward(self, x, past=None):
        q, k, v = self.qkv(self.norm(x)).chunk(3, -1)
        if past is not None:
            k, v = torch.cat([past[0], k], 1), torch.cat([past[1], v], 1)
        return x + self.proj(F.scaled_dot_product_attention(q, k, v)), (k, v)


class StagedDecoder(nn.Module):
    def __init__(self, vocab=80, dim=24, plan=("cuda:0", "cuda:0", "cuda:1", "cuda:1")):
        super().__init__()
        self.plan = plan
        self.embed = nn.Embedding(vocab, dim).to(plan[0])
        self.blocks = nn.ModuleList(Block(dim).to(d) for d in plan)
        self.head = nn.Linear(dim, vocab).to(plan[-1])

    @torch.no_grad()
    def forward(self, ids, past=None):
        x, present = self.embed(ids.to(self.plan[0])), []
        for i, (block, device) in enumerate(zip(self.blocks, self.plan)):
            x, kv = block(x.to(device), past[i] if past else None)
            present.append(kv)
        return self.head(x), present


class PrefixPool:
    """Keeps the hottest prefixes on the cards and the rest on the host."""

    def __init__(self, hot=1):
        self.hot, self.entries, self.order = hot, {}, []

    def trim(self):
        for key in self.order[:-self.hot]:
            self.entries[key] = [(k.to("cpu"), v.to("cpu")) for k, v in self.entries[key]]

    def store(self, key, present):
        self.entries[key] = present
        self.touch(key)

    def touch(self, key):
        if key in self.order:
            self.order.remove(key)
        self.order.append(key)
        self.trim()

    def lookup(self, key):
        entry = self.entries.get(key)
        if entry is not None:
            self.touch(key)
        return entry


class Server:
    def __init__(self, model, pool):
        self.model, self.pool = model, pool

    def answer(self, system, user):
        past = self.pool.lookup(system)
        if past is None:
            _, past = self.model(torch.tensor([system]))
            self.pool.store(system, past)
        logits, _ = self.model(torch.tensor([user]), past)
        return logits[0, -1].argmax().item()


if __name__ == "__main__":
    torch.manual_seed(0)
    server = Server(StagedDecoder(), PrefixPool(hot=1))
    polite, terse = (1, 2, 3, 4), (9, 8, 7)
    for system, user in [(polite, [11, 12]), (polite, [13]), (terse, [11]), (polite, [14, 15])]:
        print(system, server.answer(system, user))
