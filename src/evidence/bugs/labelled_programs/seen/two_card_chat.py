# cause: cache-or-beam-state-on-wrong-device
# guilty: past_k (self.store.k[self.idx])
"""Incremental decoding with layers laid out over two cards."""
import torch
import torch.nn as nn


class Store:
    def __init__(self, layers, batch, heads, room, dim, device):
        shape = (batch, heads, room, dim)
        self.k = [torch.zeros(shape, device=device) for _ in range(layers)]
        self.v = [torch.zeros(shape, device=device) for _ in range(layers)]


class Layer(nn.Module):
    def __init__(self, idx, width, heads):
        super().__init__()
        self.idx, self.heads, self.store = idx, heads, None
        self.norm = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.mix = nn.Linear(width, width)

    def forward(self, x, start):
        b, t, w = x.shape
        q, k, v = self.qkv(self.norm(x)).view(b, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        end = start + t
        self.store.k[self.idx][:, :, start:end] = k
        self.store.v[self.idx][:, :, start:end] = v
        past_k = self.store.k[self.idx][:, :, :end]
        past_v = self.store.v[self.idx][:, :, :end]
        scores = torch.matmul(q, past_k.transpose(-1, -2)) / q.size(-1) ** 0.5
        y = torch.matmul(scores.softmax(dim=-1), past_v)
        return x + self.mix(y.transpose(1, 2).reshape(b, t, w))


class Chat(nn.Module):
    def __init__(self, vocab=64, width=32, heads=4, layers=4):
        super().__init__()
        self.heads, self.width = heads, width
        self.embed = nn.Embedding(vocab, width)
        self.layers = nn.ModuleList(Layer(i, width, heads) for i in range(layers))
        self.head = nn.Linear(width, vocab)

    def spread(self, cards):
        per = len(self.layers) // len(cards)
        self.embed.to(cards[0])
        for i, layer in enumerate(self.layers):
            layer.to(cards[i // per])
        self.head.to(cards[-1])
        return self

    def forward(self, ids, start):
        x = self.embed(ids.to(self.embed.weight.device))
        for layer in self.layers:
            x = layer(x.to(layer.qkv.weight.device), start)
        return self.head(x[:, -1])

    @torch.no_grad()
    def reply(self, ids, new=6):
        home = self.embed.weight.device
        store = Store(len(self.layers), ids.size(0), self.heads, ids.size(1) + new,
                      self.width // self.heads, home)
        for layer in self.layers:
            layer.store = store
        start, words = 0, []
        for _ in range(new):
            nxt = self(ids, start).argmax(dim=-1, keepdim=True)
            start += ids.size(1)
            words.append(nxt)
            ids = nxt
        return torch.cat(words, dim=1)


torch.manual_seed(0)
model = Chat().spread(["cuda:0", "cuda:1"]).eval()
print(model.reply(torch.randint(64, (2, 5))).tolist())
