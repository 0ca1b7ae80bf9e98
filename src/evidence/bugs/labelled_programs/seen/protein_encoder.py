# cause: rope-table-on-wrong-device
# guilty: self.cos[:t]
"""Bidirectional encoder with rotary positions for protein sequences."""
import torch
import torch.nn as nn
import torch.nn.functional as F

AA = "ACDEFGHIKLMNPQRSTVWY"


class Rotary(nn.Module):
    def __init__(self, dim, max_len=512, base=10000.0):
        super().__init__()
        inv = 1.0 / base ** (torch.arange(0, dim, 2).float() / dim)
        self.register_buffer("inv_freq", inv)
        ang = torch.outer(torch.arange(max_len).float(), inv)
        ang = torch.cat([ang, ang], dim=-1)
        self.cos = ang.cos()
        self.sin = ang.sin()

    @staticmethod
    def half(x):
        a, b = x.chunk(2, dim=-1)
        return torch.cat([-b, a], dim=-1)

    def forward(self, x):
        t = x.size(-2)
        return x * self.cos[:t] + self.half(x) * self.sin[:t]


class Layer(nn.Module):
    def __init__(self, d, heads):
        super().__init__()
        self.heads = heads
        self.rotary = Rotary(d // heads)
        self.qkv, self.out = nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.n1, self.n2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.ff = nn.Sequential(nn.Linear(d, 2 * d), nn.GELU(), nn.Linear(2 * d, d))
        self.register_buffer("slope", torch.linspace(0.1, 1.0, heads).view(1, heads, 1, 1))

    def forward(self, x, pad):
        b, t, d = x.shape
        q, k, v = self.qkv(self.n1(x)).view(b, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        q, k = self.rotary(q), self.rotary(k)
        att = (q @ k.transpose(-1, -2)) * self.slope
        att = att.masked_fill(pad[:, None, None, :], float("-inf")).softmax(-1)
        x = x + self.out((att @ v).transpose(1, 2).reshape(b, t, d))
        return x + self.ff(self.n2(x))


class ProteinEncoder(nn.Module):
    def __init__(self, d=32, heads=4, depth=2):
        super().__init__()
        self.emb = nn.Embedding(len(AA) + 1, d, padding_idx=0)
        self.layers = nn.ModuleList(Layer(d, heads) for _ in range(depth))
        self.head = nn.Linear(d, 1)

    def forward(self, ids):
        pad = ids.eq(0)
        x = self.emb(ids)
        for layer in self.layers:
            x = layer(x, pad)
        w = (~pad).float().unsqueeze(-1)
        return self.head((x * w).sum(1) / w.sum(1)).squeeze(-1)


def collate(pairs):
    seqs, ys = zip(*pairs)
    ids = nn.utils.rnn.pad_sequence([torch.tensor([AA.index(c) + 1 for c in s]) for s in seqs], batch_first=True)
    return ids, torch.tensor(ys)


def main():
    torch.manual_seed(11)
    gpu = torch.device("cuda:1")
    gen = torch.Generator().manual_seed(2)
    rand = lambda n: "".join(AA[i] for i in torch.randint(0, 20, (n,), generator=gen).tolist())
    data = [(s := rand(10 + i % 7), s.count("K") / len(s)) for i in range(48)]
    loader = torch.utils.data.DataLoader(data, batch_size=12, shuffle=True, collate_fn=collate)
    net = ProteinEncoder().to(gpu)
    opt = torch.optim.Adam(net.parameters(), lr=1e-3)
    for epoch in range(2):
        for ids, y in loader:
            loss = F.mse_loss(net(ids.to(gpu)), y.to(gpu))
            opt.zero_grad()
            loss.backward()
            opt.step()
        print(epoch, loss.item())


main()
