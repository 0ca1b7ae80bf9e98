# cause: tensor-created-on-wrong-device|hard-coded-device
# guilty: starts (row_starts(...))
# line: 57
# repair: key the memo with the real card: call row_starts(batch, length, x.device) in PackedEncoder.forward instead of torch.device("cuda") OR drop the lru_cache OR return row_starts(...).to(x.device)
"""Packed document encoders, one per card, in a single process; each worker enters its own card."""
from functools import lru_cache

import torch
import torch.nn as nn
import torch.nn.functional as F


@lru_cache(maxsize=64)
def row_starts(batch, length, device):
    """Cumulative starts of `batch` rows of equal length; asked for in every layer, so kept."""
    return torch.arange(0, (batch + 1) * length, length, dtype=torch.int64, device=device)


class PackedAttention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, 3 * dim)
        self.out = nn.Linear(dim, dim)

    def forward(self, x, same_row):
        total, dim = x.shape
        q, k, v = self.qkv(x).view(total, 3, self.heads, -1).permute(1, 2, 0, 3)
        y = F.scaled_dot_product_attention(q[None], k[None], v[None], attn_mask=same_row)
        return self.out(y[0].transpose(0, 1).reshape(total, dim))


class PackedLayer(nn.Module):
    def __init__(self, dim, heads=4):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.attn = PackedAttention(dim, heads)
        self.mlp = nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))

    def forward(self, x, same_row):
        x = x + self.attn(self.n1(x), same_row)
        return x + self.mlp(self.n2(x))


class PackedEncoder(nn.Module):
    def __init__(self, vocab=120, dim=32, depth=2, longest=64):
        super().__init__()
        self.words = nn.Embedding(vocab, dim)
        self.places = nn.Embedding(longest, dim)
        self.layers = nn.ModuleList(PackedLayer(dim) for _ in range(depth))

    def forward(self, ids):
        batch, length = ids.shape
        x = self.words(ids.flatten())
        starts = row_starts(batch, length, torch.device("cuda"))
        running = torch.arange(batch * length, device=x.device)
        places = running - starts[:-1].repeat_interleave(length)
        row = running.div(length, rounding_mode="floor")
        same_row = row[:, None] == row[None, :]
        x = x + self.places(places)
        for layer in self.layers:
            x = layer(x, same_row)
        return x.view(batch, length, -1).mean(1)


class Worker:
    def __init__(self, index, state):
        self.index = index
        with torch.cuda.device(index):
            self.encoder = PackedEncoder()
            self.encoder.load_state_dict(state)
            self.encoder.cuda().eval()

    @torch.inference_mode()
    def encode(self, ids):
        with torch.cuda.device(self.index):
            return F.normalize(self.encoder(ids.cuda()), dim=-1).cpu()


class EncoderPool:
    def __init__(self, workers):
        self.workers = workers

    def encode(self, documents, length=16, batch=4):
        rows = torch.stack([F.pad(d[:length], (0, length - d[:length].numel())) for d in documents])
        parts = []
        for turn, chunk in enumerate(rows.split(batch)):
            worker = self.workers[turn % len(self.workers)]
            parts.append(worker.encode(chunk))
        return torch.cat(parts)


def main():
    torch.manual_seed(0)
    state = PackedEncoder().state_dict()
    pool = EncoderPool([Worker(i, state) for i in range(2)])
    documents = [torch.randint(1, 120, (n,)) for n in (12, 20, 9, 16, 14, 11, 18, 10)]
    vectors = pool.encode(documents)
    print(vectors.shape, (vectors @ vectors.T).mean().item())


if __name__ == "__main__":
    main()
