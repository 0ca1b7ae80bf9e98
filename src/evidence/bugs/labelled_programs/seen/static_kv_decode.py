# cause: cache-or-beam-state-on-wrong-device
# guilty: k (v or cache.k or cache.v)
import torch
import torch.nn as nn
import torch.nn.functional as F


class StaticKV:
    def __init__(self, batch, heads, max_len, hd, dtype=torch.float32):
        self.k = torch.zeros(batch, heads, max_len, hd, dtype=dtype)
        self.v = torch.zeros(batch, heads, max_len, hd, dtype=dtype)
        self.used = 0

    def append(self, k, v):
        t = k.size(2)
        self.k[:, :, self.used : self.used + t] = k
        self.v[:, :, self.used : self.used + t] = v
        self.used += t
        return self.k[:, :, : self.used], self.v[:, :, : self.used]


class Decoder(nn.Module):
    def __init__(self, vocab=70, d=32, heads=4):
        super().__init__()
        self.h, self.hd = heads, d // heads
        self.emb = nn.Embedding(vocab, d)
        self.q, self.k, self.v, self.o = (nn.Linear(d, d) for _ in range(4))
        self.lm = nn.Linear(d, vocab)

    def split(self, t):
        return t.view(t.size(0), -1, self.h, self.hd).transpose(1, 2)

    def forward(self, ids, cache):
        x = self.emb(ids)
        k, v = cache.append(self.split(self.k(x)), self.split(self.v(x)))
        q = self.split(self.q(x))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=ids.size(1) > 1)
        return self.lm(x + self.o(y.transpose(1, 2).flatten(2)))


@torch.inference_mode()
def decode(model, prompt, steps):
    cache = StaticKV(prompt.size(0), model.h, prompt.size(1) + steps, model.hd)
    ids, seq = prompt, prompt
    for _ in range(steps):
        nxt = model(ids, cache)[:, -1].argmax(-1, keepdim=True)
        seq, ids = torch.cat([seq, nxt], 1), nxt
    return seq


device = torch.device("cuda:0")
model = Decoder().eval().to(device)
print(decode(model, torch.randint(0, 70, (2, 5), device=device), 6).tolist())
