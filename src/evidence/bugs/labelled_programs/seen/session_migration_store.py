# cause: cache-or-beam-state-on-wrong-device
# guilty: past (past[0], past_k, self.cache[...], the cached keys)
# line: 23
# repair: in Router.dispatch move the session's cache when the worker changes: session.cache = [(k.to(worker.device), v.to(worker.device)) for k, v in session.cache] OR pin a session to its worker (return session.worker when it has one)
import itertools

import torch
import torch.nn as nn
import torch.nn.functional as F


class CachedAttention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads, self.hd = heads, dim // heads
        self.qkv = nn.Linear(dim, 3 * dim)
        self.out = nn.Linear(dim, dim)

    def forward(self, x, past=None):
        b, n, d = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, self.heads, self.hd).permute(2, 0, 3, 1, 4)
        if past is not None:
            k = torch.cat([past[0], k], dim=2)
            v = torch.cat([past[1], v], dim=2)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=past is None)
        return self.out(y.transpose(1, 2).reshape(b, n, d)), (k, v)


class TinyDecoder(nn.Module):
    def __init__(self, vocab=96, dim=32, heads=4, depth=2):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.attn = nn.ModuleList(CachedAttention(dim, heads) for _ in range(depth))
        self.norm = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, vocab)

    def forward(self, ids, cache=None):
        x = self.embed(ids)
        new = []
        for i, layer in enumerate(self.attn):
            y, kv = layer(x, None if cache is None else cache[i])
            x = x + y
            new.append(kv)
        return self.head(self.norm(x)), new


class Worker:
    def __init__(self, device, weights):
        self.device = torch.device(device)
        self.model = TinyDecoder()
        self.model.load_state_dict(weights)
        self.model.to(self.device).eval()

    @torch.no_grad()
    def extend(self, session, ids, n_new):
        ids = torch.tensor([ids], device=self.device)
        words = []
        for _ in range(n_new):
            logits, session.cache = self.model(ids, session.cache)
            ids = logits[:, -1:].argmax(-1)
            words.append(ids.item())
        return words


class Session:
    def __init__(self, name):
        self.name = name
        self.cache = None
        self.turns = 0


class Router:
    """Round robin over the replicas, one per card."""

    def __init__(self, devices):
        weights = TinyDecoder().state_dict()
        self.workers = [Worker(d, weights) for d in devices]
        self.turn = itertools.cycle(self.workers)
        self.sessions = {}

    def dispatch(self, user, ids, n_new=3):
        session = self.sessions.setdefault(user, Session(user))
        worker = next(self.turn)
        session.turns += 1
        return worker.extend(session, ids, n_new)


if __name__ == "__main__":
    torch.manual_seed(0)
    router = Router(["cuda:0", "cuda:1"])
    for user, text in [("ann", [4, 9, 2]), ("bob", [7, 7]), ("cleo", [1]), ("ann", [5, 3])]:
        print(user, router.dispatch(user, text))
