# cause: device-ordinal-out-of-range
# guilty: device (f"cuda:{rank}", rank)
# line: 33
# repair: in Committee.device_of take the rank modulo the number of cards: f"cuda:{rank % torch.cuda.device_count()}" OR use two members
"""Query-by-committee active learning: each member has a card to itself."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class Member(nn.Module):
    def __init__(self, features, classes, seed):
        super().__init__()
        torch.manual_seed(seed)
        self.net = nn.Sequential(nn.Linear(features, 24), nn.ReLU(), nn.Linear(24, classes))

    def forward(self, x):
        return self.net(x)


class Committee:
    def __init__(self, size, features, classes):
        self.members = []
        for rank in range(size):
            self.add(Member(features, classes, seed=rank), rank)

    @staticmethod
    def device_of(rank):
        return f"cuda:{rank}"

    def add(self, member, rank):
        device = self.device_of(rank)
        self.members.append((member.to(device), device))

    def fit(self, x, y, steps=20):
        for member, device in self.members:
            opt = torch.optim.Adam(member.parameters(), lr=1e-2)
            xb, yb = x.to(device), y.to(device)
            for _ in range(steps):
                loss = F.cross_entropy(member(xb), yb)
                opt.zero_grad()
                loss.backward()
                opt.step()

    @torch.no_grad()
    def disagreement(self, x):
        votes = torch.stack([m(x.to(d)).softmax(-1).cpu() for m, d in self.members])
        mean = votes.mean(0)
        entropy = -(mean * mean.clamp(min=1e-9).log()).sum(-1)
        return entropy + (votes * votes.clamp(min=1e-9).log()).sum(-1).mean(0)


def pool(n=200):
    x = torch.randn(n, 6)
    return x, (x[:, 0] + x[:, 1] > 0).long()


if __name__ == "__main__":
    torch.manual_seed(0)
    x, y = pool()
    known = list(range(10))
    committee = Committee(3, 6, 2)
    for round_no in range(3):
        committee.fit(x[known], y[known])
        gain = committee.disagreement(x)
        gain[known] = -1
        known += gain.topk(5).indices.tolist()
        print(round_no, len(known))
