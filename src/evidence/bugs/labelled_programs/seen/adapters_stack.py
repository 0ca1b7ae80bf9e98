# cause: adapter-weights-on-other-device
# guilty: self.a
import torch
from torch import nn


class Bottleneck(nn.Module):
    def __init__(self, dim, hidden, device=None):
        super().__init__()
        self.a = nn.Parameter(torch.randn(dim, hidden, device=device) * 0.02)
        self.b = nn.Parameter(torch.zeros(hidden, dim, device=device))

    def forward(self, h):
        return h + torch.relu(h @ self.a) @ self.b


class Layer(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.mix = nn.MultiheadAttention(dim, 4, batch_first=True)
        self.ff = nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))
        self.n1, self.n2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.adapters = nn.ModuleDict()
        self.active = None

    @property
    def device(self):
        return self.n1.weight.device

    def forward(self, h):
        q = self.n1(h)
        h = h + self.mix(q, q, q, need_weights=False)[0]
        out = self.ff(self.n2(h))
        if self.active is not None:
            out = self.adapters[self.active](out)
        return h + out


class Encoder(nn.Module):
    def __init__(self, dim=32, depth=6):
        super().__init__()
        self.dim = dim
        self.embed = nn.Embedding(50, dim)
        self.layers = nn.ModuleList(Layer(dim) for _ in range(depth))

    @property
    def device(self):
        return next(self.parameters()).device

    def place(self, devices):
        self.embed.to(devices[0])
        per = -(-len(self.layers) // len(devices))
        for i, l in enumerate(self.layers):
            l.to(devices[i // per])
        return self

    def add_adapter(self, name, hidden=8):
        for l in self.layers:
            l.adapters[name] = Bottleneck(self.dim, hidden, device=self.device)
        self.use(name)

    def use(self, name):
        for l in self.layers:
            l.active = name

    def forward(self, ids):
        h = self.embed(ids.to(self.device))
        for l in self.layers:
            h = l(h.to(l.device))
        return h.mean(1)


enc = Encoder().place(["cuda:0", "cuda:1"])
ids = torch.randint(0, 50, (2, 9))
with torch.no_grad():
    print("plain", enc(ids).norm().item())
enc.add_adapter("sentiment")
opt = torch.optim.Adam([p for n, p in enc.named_parameters() if "adapters" in n], 1e-2)
for _ in range(3):
    loss = enc(ids).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    print("tuned", loss.item())
