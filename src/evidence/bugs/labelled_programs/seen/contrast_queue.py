# cause: cache-or-beam-state-on-wrong-device
# guilty: self.queue.keys
import copy
import torch
import torch.nn as nn
import torch.nn.functional as F


class Queue:
    def __init__(self, dim, size):
        self.keys = F.normalize(torch.randn(size, dim), dim=-1)
        self.ptr = 0

    @torch.no_grad()
    def push(self, k):
        end = self.ptr + k.size(0)
        self.keys[self.ptr:end] = k
        self.ptr = end % self.keys.size(0)


class MoCo(nn.Module):
    def __init__(self, make, dim=16, size=64, m=0.99, t=0.1):
        super().__init__()
        self.q_enc = make(dim)
        self.k_enc = copy.deepcopy(self.q_enc).requires_grad_(False)
        self.queue = Queue(dim, size)
        self.m, self.t = m, t

    @torch.no_grad()
    def follow(self):
        for a, b in zip(self.q_enc.parameters(), self.k_enc.parameters()):
            b.mul_(self.m).add_(a, alpha=1 - self.m)

    def forward(self, xq, xk):
        q = F.normalize(self.q_enc(xq), dim=-1)
        with torch.no_grad():
            self.follow()
            k = F.normalize(self.k_enc(xk), dim=-1)
        pos = torch.einsum("nc,nc->n", q, k).unsqueeze(-1)
        neg = torch.einsum("nc,kc->nk", q, self.queue.keys.clone())
        self.queue.push(k)
        logits = torch.cat([pos, neg], 1) / self.t
        return F.cross_entropy(logits, logits.new_zeros(len(logits), dtype=torch.long))


def make_encoder(dim):
    return nn.Sequential(nn.Conv2d(1, 8, 3, 2), nn.ReLU(), nn.Conv2d(8, 16, 3, 2), nn.ReLU(),
                         nn.Flatten(), nn.Linear(144, dim))


def augment(x):
    x = torch.roll(x, shifts=(int(torch.randint(-2, 3, ())),) * 2, dims=(2, 3))
    return x + 0.1 * torch.randn_like(x)


def main():
    torch.manual_seed(0)
    dev = torch.device("cuda")
    model = MoCo(make_encoder).to(dev)
    opt = torch.optim.SGD(model.q_enc.parameters(), 0.03, momentum=0.9)
    for i in range(4):
        img = torch.rand(16, 1, 16, 16, device=dev)
        loss = model(augment(img), augment(img))
        opt.zero_grad()
        loss.backward()
        opt.step()
        print(i, loss.item())


if __name__ == "__main__":
    main()
