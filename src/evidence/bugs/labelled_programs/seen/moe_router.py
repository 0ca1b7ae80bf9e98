# cause: module-left-on-other-device
# guilty: self.w1.weight (self.w1 or self.experts)
import torch
import torch.nn as nn
import torch.nn.functional as F


class Expert(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.w1 = nn.Linear(d, 2 * d)
        self.w2 = nn.Linear(2 * d, d)

    def forward(self, x):
        return self.w2(F.gelu(self.w1(x)))


class SwitchFFN(nn.Module):
    def __init__(self, d, n_experts):
        super().__init__()
        self.router = nn.Linear(d, n_experts)
        self.experts = [Expert(d) for _ in range(n_experts)]

    def forward(self, x):
        flat = x.reshape(-1, x.size(-1))
        gate = self.router(flat).softmax(-1)
        weight, pick = gate.max(-1)
        out = torch.zeros_like(flat)
        for i, expert in enumerate(self.experts):
            rows = (pick == i).nonzero(as_tuple=True)[0]
            if rows.numel():
                y = expert(flat[rows])
                out[rows] = y * weight[rows, None]
        return out.view_as(x)


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(100, 32)
        self.ffn = SwitchFFN(32, 4)
        self.head = nn.Linear(32, 7)

    def forward(self, ids):
        h = self.emb(ids)
        return self.head(h + self.ffn(h))


device = "cuda:0"
model = Tagger().to(device)
opt = torch.optim.Adam(model.parameters(), lr=1e-3)
for _ in range(3):
    ids = torch.randint(0, 100, (4, 20), device=device)
    tags = torch.randint(0, 7, (4, 20), device=device)
    loss = F.cross_entropy(model(ids).flatten(0, 1), tags.flatten())
    opt.zero_grad()
    loss.backward()
    opt.step()
print(loss.item())
