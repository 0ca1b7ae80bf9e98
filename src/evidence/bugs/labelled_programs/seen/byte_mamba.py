# cause: input-not-on-embedding-device
# guilty: raw
import torch
import torch.nn as nn
import torch.nn.functional as F


class SelectiveScan(nn.Module):
    def __init__(self, d, n=4):
        super().__init__()
        self.a = nn.Parameter(torch.log(torch.arange(1, n + 1).float()).repeat(d, 1))
        self.bc, self.dt = nn.Linear(d, 2 * n), nn.Linear(d, d)
        self.skip = nn.Parameter(torch.ones(d))

    def forward(self, x):
        b, c = self.bc(x).chunk(2, -1)
        dt = F.softplus(self.dt(x))
        decay = torch.exp(-dt.unsqueeze(-1) * self.a.exp())
        drive = (dt * x).unsqueeze(-1) * b.unsqueeze(2)
        s, ys = torch.zeros_like(drive[:, 0]), []
        for t in range(x.size(1)):
            s = decay[:, t] * s + drive[:, t]
            ys.append((s * c[:, t, None]).sum(-1))
        return torch.stack(ys, 1) + self.skip * x


class ByteModel(nn.Module):
    def __init__(self, d=24, depth=2):
        super().__init__()
        self.bytes = nn.Embedding(256, d)
        self.norms = nn.ModuleList(nn.LayerNorm(d) for _ in range(depth))
        self.scans = nn.ModuleList(SelectiveScan(d) for _ in range(depth))
        self.head = nn.Linear(d, 256)

    def forward(self, raw):
        h = self.bytes(raw)
        for norm, scan in zip(self.norms, self.scans):
            h = h + scan(norm(h))
        return self.head(h)


def encode(texts, width):
    rows = [list(t.encode()[:width].ljust(width)) for t in texts]
    return torch.tensor(rows)


class Corpus:
    lines = ["state space models scan", "bytes need no vocabulary", "short lines are padded"]

    def batches(self, n, device, width=18):
        for _ in range(n):
            raw = encode(self.lines, width)
            if raw.device != device:
                raw.to(device, non_blocking=True)
            yield raw


def train(device):
    torch.manual_seed(0)
    model = ByteModel().to(device)
    opt = torch.optim.AdamW(model.parameters(), 3e-3)
    for raw in Corpus().batches(3, device):
        logits = model(raw[:, :-1])
        loss = F.cross_entropy(logits.transpose(1, 2), raw[:, 1:])
        opt.zero_grad()
        loss.backward()
        opt.step()
        print(round(loss.item(), 4))


train(torch.device("cuda:0"))
