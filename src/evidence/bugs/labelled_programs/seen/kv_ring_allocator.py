# cause: cache-or-beam-state-on-wrong-device
# guilty: self.keys[layer] (self.keys, layer buffer, keys)
# line: 21
# repair: allocate each layer's ring on that layer's card: in RingAllocator.build pass devices=[next(b.parameters()).device for b in model.blocks] and use devices[i] in RingCache.__init__ OR in RingCache.__init__ create the buffers lazily from k.device in put
"""Decoding with a ring buffer of keys and values, blocks on two cards."""
import torch
import torch.nn.functional as F
from torch import nn


class RingCache:
    def __init__(self, layers, batch, heads, window, dim, device):
        shape = (batch, heads, window, dim)
        self.window = window
        self.keys = [torch.zeros(shape, device=device) for _ in range(layers)]
        self.values = [torch.zeros(shape, device=device) for _ in range(layers)]
        self.step = 0

    def put(self, layer, k, v):
        slot = torch.tensor([self.step % self.window], device=k.device)
        self.keys[layer].index_copy_(2, slot, k)
        self.values[layer].index_copy_(2, slot, v)
        seen = min(self.step + 1, self.window)
        return self.keys[layer][:, :, :seen], self.values[layer][:, :, :seen]

    def advance(self):
        self.step += 1


class RingAllocator:
    def __init__(self, window=8):
        self.window = window

    def build(self, model, batch):
        first = next(model.parameters())
        return RingCache(len(model.blocks), batch, model.heads, self.window,
                         model.width // model.heads, first.device)


class Block(nn.Module):
    def __init__(self, index, width, heads):
        super().__init__()
        self.index = index
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.norm = nn.LayerNorm(width)

    def forward(self, x, cache):
        b, t, w = x.shape
        q, k, v = self.qkv(self.norm(x)).view(b, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        k, v = cache.put(self.index, k, v)
        mixed = F.scaled_dot_product_attention(q, k, v)
        return x + self.out(mixed.transpose(1, 2).reshape(b, t, w))


class TwoCardDecoder(nn.Module):
    def __init__(self, vocab=61, width=32, heads=4, depth=4, cards=("cuda:0", "cuda:1")):
        super().__init__()
        self.width, self.heads, self.cards = width, heads, cards
        self.embed = nn.Embedding(vocab, width).to(cards[0])
        half = depth // 2
        self.blocks = nn.ModuleList(
            Block(i, width, heads).to(cards[0] if i < half else cards[1]) for i in range(depth))
        self.head = nn.Linear(width, vocab).to(cards[1])

    def device_of(self, block):
        return block.qkv.weight.device

    def forward(self, ids, cache):
        x = self.embed(ids.to(self.cards[0]))
        for block in self.blocks:
            x = block(x.to(self.device_of(block)), cache)
        cache.advance()
        return self.head(x)


class Session:
    def __init__(self, model, allocator):
        self.model = model
        self.allocator = allocator

    @torch.no_grad()
    def complete(self, prompt, new_tokens):
        cache = self.allocator.build(self.model, prompt.shape[0])
        logits = None
        for column in prompt.split(1, dim=1):
            logits = self.model(column, cache)
        out = []
        for _ in range(new_tokens):
            token = logits[:, -1].argmax(-1, keepdim=True)
            out.append(token)
            logits = self.model(token, cache)
        return torch.cat(out, dim=1)


if __name__ == "__main__":
    torch.manual_seed(1)
    session = Session(TwoCardDecoder().eval(), RingAllocator(window=6))
    print(session.complete(torch.randint(0, 61, (2, 5)), 7).cpu())
