# cause: input-not-on-embedding-device
# guilty: ids
"""Two-tower retrieval with in-batch negatives; each tower has its own card."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class Tower(nn.Module):
    def __init__(self, n, d, extra):
        super().__init__()
        self.table = nn.Embedding(n, d)
        self.mlp = nn.Sequential(nn.Linear(d + extra, 64), nn.ReLU(), nn.Linear(64, d))

    def forward(self, ids, feats):
        x = torch.cat([self.table(ids), feats.to(self.table.weight.device)], dim=-1)
        return F.normalize(self.mlp(x), dim=-1)


class TwoTower(nn.Module):
    def __init__(self, users, items, d=16):
        super().__init__()
        self.user_tower = Tower(users, d, 3).to("cuda:0")
        self.item_tower = Tower(items, d, 5).to("cuda:1")
        self.log_tau = nn.Parameter(torch.tensor(-1.5, device="cuda:0"))

    def forward(self, users, user_feats, items, item_feats):
        u = self.user_tower(users, user_feats)
        v = self.item_tower(items, item_feats)
        return u @ v.to(u.device).t() / self.log_tau.exp()


def interactions(n, users=500, items=300):
    u = torch.randint(0, users, (n,))
    i = (u * 7 + torch.randint(0, 10, (n,))) % items
    return u, torch.randn(n, 3), i, torch.randn(n, 5)


def train(model, steps=6, batch=32):
    opt = torch.optim.Adam(model.parameters(), lr=5e-3)
    for step in range(steps):
        users, user_feats, items, item_feats = interactions(batch)
        users, items = users.to("cuda:0"), items.to("cuda:0")
        scores = model(users, user_feats, items, item_feats)
        target = torch.arange(batch, device=scores.device)
        loss = F.cross_entropy(scores, target)
        opt.zero_grad()
        loss.backward()
        opt.step()
        print(step, round(loss.item(), 4))


@torch.no_grad()
def build_index(model, items=300):
    ids = torch.arange(items, device="cuda:1")
    return model.item_tower(ids, torch.zeros(items, 5)).to("cuda:0")


if __name__ == "__main__":
    torch.manual_seed(0)
    model = TwoTower(500, 300)
    print("index", tuple(build_index(model).shape))
    train(model)
    index = build_index(model)
    with torch.no_grad():
        q = model.user_tower(torch.tensor([3, 14], device="cuda:0"), torch.zeros(2, 3))
    print((q @ index.t()).topk(5).indices.tolist())
