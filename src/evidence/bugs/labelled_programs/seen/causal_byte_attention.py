# cause: tensor-created-on-wrong-device
# guilty: mask
"""Byte-level model that classifies the language of short strings."""
import math
import torch
import torch.nn as nn

SAMPLES = {
    "en": ["the cat sat on the mat", "where is the station", "it rains all day"],
    "fr": ["le chat est sur le lit", "ou est la gare", "il pleut toute la journee"],
    "de": ["die katze sitzt auf dem bett", "wo ist der bahnhof", "es regnet den ganzen tag"],
}
LANGS = list(SAMPLES)


class CausalAttention(nn.Module):
    def __init__(self, d, heads):
        super().__init__()
        self.heads, self.dk = heads, d // heads
        self.q, self.k, self.v, self.o = (nn.Linear(d, d) for _ in range(4))

    def forward(self, x):
        b, t, _ = x.shape
        q, k, v = (f(x).view(b, t, self.heads, self.dk).transpose(1, 2) for f in (self.q, self.k, self.v))
        scores = torch.einsum("bhid,bhjd->bhij", q, k) / math.sqrt(self.dk)
        mask = torch.triu(torch.ones(t, t, dtype=torch.bool), diagonal=1)
        scores = scores.masked_fill(mask, float("-inf"))
        y = torch.einsum("bhij,bhjd->bhid", scores.softmax(-1), v)
        return self.o(y.transpose(1, 2).reshape(b, t, -1))


class ByteClassifier(nn.Module):
    def __init__(self, d=32, ctx=64):
        super().__init__()
        self.byte = nn.Embedding(256, d)
        pos = torch.arange(ctx)[:, None] / 10000 ** (torch.arange(0, d, 2) / d)
        self.register_buffer("pe", torch.cat([pos.sin(), pos.cos()], dim=1), persistent=False)
        self.n1, self.n2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.att = CausalAttention(d, 4)
        self.head = nn.Linear(d, len(LANGS))

    def forward(self, ids, last):
        x = self.byte(ids) + self.pe[: ids.size(1)]
        x = self.n2(x + self.att(self.n1(x)))
        row = torch.arange(ids.size(0), device=ids.device)
        return self.head(x[row, last])


def encode(strings, device):
    raw = [torch.tensor(list(s.encode())) for s in strings]
    ids = nn.utils.rnn.pad_sequence(raw, batch_first=True).to(device)
    return ids, torch.tensor([len(r) - 1 for r in raw], device=device)


if __name__ == "__main__":
    torch.manual_seed(0)
    dev = torch.device("cuda", 1)
    strings = [s for l in LANGS for s in SAMPLES[l]]
    y = torch.tensor([i for i, l in enumerate(LANGS) for _ in SAMPLES[l]]).to(dev)
    model = ByteClassifier().to(dev)
    opt = torch.optim.Adam(model.parameters(), 3e-3)
    ids, last = encode(strings, dev)
    for step in range(10):
        loss = nn.functional.cross_entropy(model(ids, last), y)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
    print("loss", loss.item())
