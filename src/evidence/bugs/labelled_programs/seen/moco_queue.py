# cause: cache-or-beam-state-on-wrong-device|tensor-created-on-wrong-device|module-left-on-other-device
# guilty: self.queue.detach().clone() (self.queue)
import torch
from torch import nn
import torch.nn.functional as F


class MoCo(nn.Module):
    def __init__(self, encoder, dim=8, size=32, m=0.99, t=0.1):
        super().__init__()
        self.m, self.t, self.size = m, t, size
        self.q = encoder()
        self.k = encoder()
        self.k.load_state_dict(self.q.state_dict())
        self.k.requires_grad_(False)
        self.queue = F.normalize(torch.randn(dim, size), dim=0)
        self.ptr = 0

    @torch.no_grad()
    def momentum_update(self):
        for a, b in zip(self.q.parameters(), self.k.parameters()):
            b.lerp_(a, 1 - self.m)

    @torch.no_grad()
    def enqueue(self, keys):
        n = keys.size(0)
        self.queue[:, self.ptr:self.ptr + n] = keys.t()
        self.ptr = (self.ptr + n) % self.size

    def forward(self, view1, view2):
        q = F.normalize(self.q(view1), dim=1)
        with torch.no_grad():
            self.momentum_update()
            k = F.normalize(self.k(view2), dim=1)
        positive = (q * k).sum(1, keepdim=True)
        negative = q @ self.queue.detach().clone()
        logits = torch.cat([positive, negative], dim=1) / self.t
        labels = torch.zeros(len(q), dtype=torch.long, device=q.device)
        self.enqueue(k)
        return F.cross_entropy(logits, labels)


def encoder():
    return nn.Sequential(nn.Flatten(), nn.Linear(36, 24), nn.ReLU(), nn.Linear(24, 8))


def augment(x):
    noise = 0.05 * torch.randn_like(x)
    shift = int(torch.randint(0, 3, (1,)))
    return torch.roll(x, shift, dims=-1) + noise


def pretrain(device, steps=3):
    model = MoCo(encoder).to(device)
    opt = torch.optim.SGD(model.q.parameters(), lr=0.03, momentum=0.9, weight_decay=1e-4)
    for step in range(steps):
        x = torch.rand(8, 6, 6).to(device)
        loss = model(augment(x), augment(x))
        opt.zero_grad()
        loss.backward()
        opt.step()
        print(step, loss.item())
    return model.q


torch.manual_seed(0)
backbone = pretrain(torch.device("cuda:1"))
probe = nn.Linear(8, 2).to("cuda:1")
print(probe(backbone(torch.rand(2, 6, 6, device="cuda:1"))).shape)
