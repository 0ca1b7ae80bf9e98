# cause: tensor-created-on-wrong-device
# guilty: self.queue (self.queue.clone())
import copy
import torch
import torch.nn as nn
import torch.nn.functional as F


class MoCo(nn.Module):
    def __init__(self, encoder, dim=16, size=128, m=0.99, t=0.1):
        super().__init__()
        self.m, self.t, self.size = m, t, size
        self.q = encoder
        self.k = copy.deepcopy(encoder)
        for p in self.k.parameters():
            p.requires_grad_(False)
        self.queue = F.normalize(torch.randn(dim, size), dim=0)
        self.ptr = 0

    @torch.no_grad()
    def momentum(self):
        for pq, pk in zip(self.q.parameters(), self.k.parameters()):
            pk.mul_(self.m).add_(pq, alpha=1 - self.m)

    @torch.no_grad()
    def enqueue(self, keys):
        n = keys.size(0)
        self.queue[:, self.ptr:self.ptr + n] = keys.T
        self.ptr = (self.ptr + n) % self.size

    def forward(self, xq, xk):
        q = F.normalize(self.q(xq), dim=1)
        with torch.no_grad():
            self.momentum()
            k = F.normalize(self.k(xk), dim=1)
        pos = (q * k).sum(1, keepdim=True)
        neg = q @ self.queue.clone()
        logits = torch.cat([pos, neg], dim=1) / self.t
        self.enqueue(k)
        return F.cross_entropy(logits, torch.zeros(len(q), dtype=torch.long, device=q.device))


torch.manual_seed(0)
device = "cuda:0"
net = MoCo(nn.Sequential(nn.Linear(24, 64), nn.ReLU(), nn.Linear(64, 16))).to(device)
opt = torch.optim.SGD(net.q.parameters(), lr=0.05)
for step in range(8):
    x = torch.randn(32, 24, device=device)
    loss = net(x + 0.1 * torch.randn_like(x), x + 0.1 * torch.randn_like(x))
    opt.zero_grad()
    loss.backward()
    opt.step()
print(loss.item())
