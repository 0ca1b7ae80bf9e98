# cause: metric-state-device
# guilty: self.hits
import torch
import torch.nn as nn
import torch.nn.functional as F


class RecallAtK(nn.Module):
    def __init__(self, ks=(1, 5), device=None):
        super().__init__()
        device = torch.device("cuda", torch.cuda.current_device()) if device is None else device
        self.ks = ks
        self.register_buffer("hits", torch.zeros(len(ks), device=device))
        self.register_buffer("seen", torch.zeros((), device=device))

    @torch.no_grad()
    def update(self, sims, truth):
        order = sims.topk(max(self.ks), dim=1).indices
        found = order == truth[:, None]
        self.hits += torch.stack([found[:, :k].any(1).float().sum() for k in self.ks])
        self.seen += truth.numel()

    def compute(self):
        return (self.hits / self.seen).tolist()


class Encoder(nn.Module):
    def __init__(self, d_in, d=16):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(d_in, 32), nn.ReLU(), nn.Linear(32, d))

    def forward(self, x):
        return F.normalize(self.net(x), dim=-1)


class Retrieval:
    def __init__(self, device):
        self.device = torch.device(device)
        self.query = Encoder(10).to(self.device)
        self.doc = Encoder(14).to(self.device)
        self.opt = torch.optim.Adam([*self.query.parameters(), *self.doc.parameters()], 3e-3)

    def pairs(self, n):
        z = torch.randn(n, 6, device=self.device)
        noise = lambda k: torch.randn(n, k, device=self.device)
        return torch.cat([z, noise(4)], 1), torch.cat([z, noise(8)], 1)

    def train(self, steps):
        for _ in range(steps):
            q, d = self.pairs(32)
            sims = self.query(q) @ self.doc(d).T / 0.1
            loss = F.cross_entropy(sims, torch.arange(32, device=self.device))
            self.opt.zero_grad()
            loss.backward()
            self.opt.step()
        return loss.item()

    @torch.no_grad()
    def evaluate(self, metric, rounds=3):
        for _ in range(rounds):
            q, d = self.pairs(40)
            metric.update(self.query(q) @ self.doc(d).T, torch.arange(40, device=self.device))
        return metric.compute()


if __name__ == "__main__":
    task = Retrieval("cuda:1")
    print("loss", task.train(10))
    print("recall", task.evaluate(RecallAtK()))
