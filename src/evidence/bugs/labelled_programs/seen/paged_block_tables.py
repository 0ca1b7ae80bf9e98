# cause: cache-or-beam-state-on-wrong-device
# guilty: slots
# line: 38
# repair: in PagedCache.write and read use slots.to(self.keys[layer].device) OR in BlockTable keep the slots on the host (device="cpu"), since a host index may address a pool of any card
"""A toy serving engine with paged key-value blocks, one pool per layer."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class BlockTable:
    def __init__(self, n_blocks, block_size, device):
        self.free = list(range(n_blocks))
        self.block_size, self.device = block_size, device
        self.blocks = {}
        self.length = {}

    def extend(self, seq, n):
        start = self.length.get(seq, 0)
        blocks = self.blocks.setdefault(seq, [])
        while len(blocks) * self.block_size < start + n:
            blocks.append(self.free.pop(0))
        self.length[seq] = start + n
        return self.slots(seq)[start:]

    def slots(self, seq):
        ids = [b * self.block_size + o for b in self.blocks[seq] for o in range(self.block_size)]
        return torch.tensor(ids[:self.length[seq]], device=self.device)


class PagedCache:
    def __init__(self, devices, n_blocks, block_size, dim):
        rows = n_blocks * block_size
        self.keys = [torch.zeros(rows, dim, device=d) for d in devices]
        self.values = [torch.zeros(rows, dim, device=d) for d in devices]

    def write(self, layer, slots, k, v):
        self.keys[layer][slots] = k
        self.values[layer][slots] = v

    def read(self, layer, slots):
        return self.keys[layer][slots], self.values[layer][slots]


class Layer(nn.Module):
    def __init__(self, dim, index):
        super().__init__()
        self.index = index
        self.norm = nn.LayerNorm(dim)
        self.qkv = nn.Linear(dim, dim * 3)
        self.out = nn.Linear(dim, dim)

    def forward(self, x, cache, new, used):
        q, k, v = self.qkv(self.norm(x)).chunk(3, dim=-1)
        cache.write(self.index, new, k, v)
        keys, values = cache.read(self.index, used)
        att = F.softmax(q @ keys.t() / q.shape[-1] ** 0.5, dim=-1)
        return x + self.out(att @ values)


class Engine:
    def __init__(self, vocab=64, dim=16, cards=("cuda:0", "cuda:0", "cuda:1", "cuda:1")):
        self.cards = cards
        self.embed = nn.Embedding(vocab, dim).to(cards[0])
        self.layers = [Layer(dim, i).to(c) for i, c in enumerate(cards)]
        self.head = nn.Linear(dim, vocab).to(cards[-1])
        self.table = BlockTable(16, 4, cards[0])
        self.cache = PagedCache(cards, 16, 4, dim)

    @torch.inference_mode()
    def forward(self, seq, ids):
        new = self.table.extend(seq, len(ids))
        used = self.table.slots(seq)
        x = self.embed(torch.tensor(ids, device=self.cards[0]))
        for layer, card in zip(self.layers, self.cards):
            x = layer(x.to(card), self.cache, new, used)
        return self.head(x[-1])

    def generate(self, seq, prompt, n=5):
        out = list(prompt)
        logits = self.forward(seq, prompt)
        for _ in range(n):
            token = int(logits.argmax())
            out.append(token)
            logits = self.forward(seq, [token])
        return out


if __name__ == "__main__":
    torch.manual_seed(1)
    engine = Engine()
    print(engine.generate("a", [3, 5, 7]))
    print(engine.generate("b", [9, 1]))
