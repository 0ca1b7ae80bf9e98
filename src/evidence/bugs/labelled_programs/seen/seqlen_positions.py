# cause: tensor-created-on-wrong-device
# guilty: positions (meta.positions or metadata.positions)
"""Inference engine with a rotating key/value buffer; runs on whatever card is asked for."""
from dataclasses import dataclass
from typing import List

import torch
from torch import nn


@dataclass
class InputMetadata:
    positions: torch.Tensor
    to_cache: torch.Tensor
    seqlens: List[int]


class BufferCache:
    def __init__(self, batch, window, dim, device):
        self.k = torch.zeros(batch, window, dim, device=device)
        self.v = torch.zeros(batch, window, dim, device=device)
        self.kv_seqlens = None
        self.window = window

    def input_metadata(self, seqlens):
        if self.kv_seqlens is None:
            self.kv_seqlens = [0] * len(seqlens)
        seqpos = self.kv_seqlens
        positions = torch.cat([torch.arange(p, p + s) for p, s in zip(seqpos, seqlens)])
        last = torch.tensor([x >= s - self.window for s in seqlens for x in range(s)], dtype=torch.bool)
        return InputMetadata(positions, last, seqlens)

    def advance(self, seqlens):
        self.kv_seqlens = [a + b for a, b in zip(self.kv_seqlens, seqlens)]


class Engine(nn.Module):
    def __init__(self, vocab=64, dim=32, max_pos=128):
        super().__init__()
        self.words = nn.Embedding(vocab, dim)
        self.register_buffer("freqs", torch.randn(max_pos, dim), persistent=False)
        self.wq, self.wk, self.wv = (nn.Linear(dim, dim, bias=False) for _ in range(3))
        self.out = nn.Linear(dim, vocab, bias=False)

    def forward(self, ids, cache):
        seqlens = [ids.numel()]
        meta = cache.input_metadata(seqlens)
        h = self.words(ids) + torch.nn.functional.embedding(meta.positions, self.freqs)
        q, k, v = self.wq(h), self.wk(h), self.wv(h)
        start = cache.kv_seqlens[0]
        cache.k[0, start:start + len(ids)] = k
        cache.v[0, start:start + len(ids)] = v
        cache.advance(seqlens)
        keys, values = cache.k[0, : cache.kv_seqlens[0]], cache.v[0, : cache.kv_seqlens[0]]
        a = torch.softmax(q @ keys.T / q.shape[-1] ** 0.5, -1)
        return self.out(a @ values)


def complete(engine, prompt, n, device):
    cache = BufferCache(1, 64, 32, device)
    ids = prompt.to(device)
    made = []
    for _ in range(n):
        nxt = engine(ids, cache)[-1:].argmax(-1)
        made.append(nxt)
        ids = nxt
    return torch.cat(made)


if __name__ == "__main__":
    where = "cuda:1"
    print(complete(Engine().to(where).eval(), torch.randint(0, 64, (7,)), 4, where))
