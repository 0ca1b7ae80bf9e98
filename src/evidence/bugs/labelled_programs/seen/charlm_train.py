# cause: tensor-created-on-wrong-device
# guilty: banned(t)
import math
import torch
import torch.nn as nn
import torch.nn.functional as F

CTX, VOCAB, DIM = 48, 65, 64
device = torch.device("cuda:0")


def banned(n):
    return torch.triu(torch.ones(n, n, dtype=torch.bool), diagonal=1)


class Attn(nn.Module):
    def __init__(self, dim, heads=4):
        super().__init__()
        self.h = heads
        self.qkv = nn.Linear(dim, 3 * dim)
        self.out = nn.Linear(dim, dim)

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, self.h, c // self.h).permute(2, 0, 3, 1, 4)
        w = q @ k.transpose(-2, -1) / math.sqrt(c // self.h)
        w = w.masked_fill(banned(t), float("-inf"))
        y = w.softmax(-1) @ v
        return self.out(y.transpose(1, 2).reshape(b, t, c))


class CharLM(nn.Module):
    def __init__(self):
        super().__init__()
        self.tok = nn.Embedding(VOCAB, DIM)
        self.pos = nn.Parameter(torch.zeros(CTX, DIM))
        self.attn = nn.ModuleList(Attn(DIM) for _ in range(2))
        self.head = nn.Linear(DIM, VOCAB)

    def forward(self, idx):
        x = self.tok(idx) + self.pos[: idx.size(1)]
        for a in self.attn:
            x = x + a(x)
        return self.head(x)


text = torch.randint(0, VOCAB, (4000,))
net = CharLM().to(device)
opt = torch.optim.AdamW(net.parameters(), lr=3e-4)
for step in range(5):
    at = torch.randint(0, len(text) - CTX - 1, (8,))
    xb = torch.stack([text[i : i + CTX] for i in at]).to(device)
    yb = torch.stack([text[i + 1 : i + 1 + CTX] for i in at]).to(device)
    loss = F.cross_entropy(net(xb).flatten(0, 1), yb.flatten())
    opt.zero_grad()
    loss.backward()
    opt.step()
print(loss.item())
