# cause: tensor-created-on-wrong-device|loss-or-label-on-other-device|extra-input-on-wrong-device
# guilty: self.log_q (log_q)
"""Two-tower retrieval with in-batch negatives, corrected for item popularity."""
import collections

import torch
import torch.nn as nn
import torch.nn.functional as F


class Tower(nn.Module):
    def __init__(self, n, d):
        super().__init__()
        self.table = nn.Embedding(n, d)
        self.mlp = nn.Sequential(nn.Linear(d, d), nn.ReLU(), nn.Linear(d, d))

    def forward(self, ids):
        return F.normalize(self.mlp(self.table(ids)), dim=-1)


class Retrieval(nn.Module):
    def __init__(self, n_users, n_items, item_counts, d=32, temperature=0.05):
        super().__init__()
        self.user, self.item = Tower(n_users, d), Tower(n_items, d)
        freq = torch.tensor([item_counts.get(i, 0) + 1 for i in range(n_items)], dtype=torch.float)
        self.log_q = (freq / freq.sum()).log()
        self.temperature = temperature

    def forward(self, u, i):
        logits = self.user(u) @ self.item(i).T / self.temperature
        logits = logits - self.log_q[i.cpu()].unsqueeze(0)
        return F.cross_entropy(logits, torch.arange(len(u), device=logits.device))


def interactions(n, n_users, n_items):
    return torch.randint(0, n_users, (n,)), (torch.rand(n) ** 2 * n_items).long()


if __name__ == "__main__":
    users, items = interactions(512, 100, 300)
    counts = collections.Counter(items.tolist())
    model = Retrieval(100, 300, counts).to("cuda:0")
    opt = torch.optim.Adagrad(model.parameters(), lr=0.05)
    for start in range(0, 512, 128):
        u, i = users[start:start + 128].to("cuda:0"), items[start:start + 128].to("cuda:0")
        loss = model(u, i)
        opt.zero_grad()
        loss.backward()
        opt.step()
        print(round(loss.item(), 3))
