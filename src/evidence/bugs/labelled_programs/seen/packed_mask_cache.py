# cause: tensor-created-on-wrong-device|cache-or-beam-state-on-wrong-device|extra-input-on-wrong-device
# guilty: bias
from functools import lru_cache

import torch
from torch import nn
from torch.nn.functional import softmax

N_HEAD = 4
HALF = 3


@lru_cache(maxsize=32)
def window_bias(n, window):
    """Additive bias: a token looks at `window` predecessors."""
    where = torch.device("cuda", torch.cuda.current_device())
    i = torch.arange(n, device=where)
    far = (i[:, None] - i[None, :])
    keep = (far >= 0) & (far < window)
    return torch.zeros(n, n, device=where).masked_fill(~keep, float("-inf"))


class LocalAttention(nn.Module):
    def __init__(self, d, window):
        super().__init__()
        self.qkv = nn.Linear(d, 3 * d, bias=False)
        self.o = nn.Linear(d, d, bias=False)
        self.window = window

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = (t.view(b, n, N_HEAD, -1).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
        bias = window_bias(n, self.window)
        att = softmax(q @ k.transpose(-1, -2) / (d // N_HEAD) ** 0.5 + bias, -1)
        return self.o((att @ v).transpose(1, 2).reshape(b, n, d))


class Layer(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.att = LocalAttention(d, 16)
        self.ff = nn.Sequential(nn.Linear(d, 4 * d), nn.GELU(), nn.Linear(4 * d, d))

    def forward(self, x):
        x = x + self.att(self.n1(x))
        return x + self.ff(self.n2(x))


class Genome(nn.Module):
    def __init__(self, d=48, depth=6):
        super().__init__()
        self.emb = nn.Embedding(5, d).to("cuda:0")
        self.layers = nn.ModuleList(Layer(d).to("cuda:0" if i < HALF else "cuda:1") for i in range(depth))
        self.top = nn.Linear(d, 5).to("cuda:1")

    def forward(self, s):
        h = self.emb(s)
        for i, layer in enumerate(self.layers):
            if i == HALF:
                h = h.to("cuda:1")
            h = layer(h)
        return self.top(h)


seq = torch.randint(0, 5, (2, 64)).cuda(0)
model = Genome()
loss = nn.functional.cross_entropy(model(seq)[:, :-1].flatten(0, 1), seq[:, 1:].flatten().to("cuda:1"))
loss.backward()
print(float(loss))
