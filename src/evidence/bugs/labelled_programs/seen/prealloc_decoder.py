# cause: cache-or-beam-state-on-wrong-device
# guilty: keys
import torch
from torch import nn


class Past:
    def __init__(self, n_layers, batch, heads, longest, dim, device):
        shape = (n_layers, batch, heads, longest, dim)
        self.k = torch.zeros(shape, device=device)
        self.v = torch.zeros(shape, device=device)

    def put(self, i, at, k, v):
        self.k[i, :, :, at] = k
        self.v[i, :, :, at] = v
        return self.k[i, :, :, : at + 1], self.v[i, :, :, : at + 1]


class Attention(nn.Module):
    def __init__(self, i, d, heads):
        super().__init__()
        self.i, self.heads = i, heads
        self.qkv = nn.Linear(d, 3 * d)
        self.proj = nn.Linear(d, d)

    def forward(self, x, past, at):
        b, d = x.shape
        q, k, v = self.qkv(x).view(b, 3, self.heads, d // self.heads).unbind(1)
        keys, values = past.put(self.i, at, k, v)
        w = torch.einsum("bhd,bhsd->bhs", q, keys).softmax(-1)
        return self.proj(torch.einsum("bhs,bhsd->bhd", w, values).reshape(b, d))


places = ["cuda:0", "cuda:0", "cuda:1", "cuda:1"]
embed = nn.Embedding(50, 32, device="cuda:0")
layers = [Attention(i, 32, 4).to(p) for i, p in enumerate(places)]
head = nn.Linear(32, 50).to(places[-1])

past = Past(4, 2, 4, 20, 8, embed.weight.device)
tok = torch.zeros(2, dtype=torch.long, device="cuda:0")
with torch.no_grad():
    for at in range(5):
        h = embed(tok)
        for layer, place in zip(layers, places):
            h = h.to(place)
            h = h + layer(h, past, at)
        tok = head(h).argmax(-1).to("cuda:0")
