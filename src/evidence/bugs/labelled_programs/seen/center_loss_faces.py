# cause: tensor-created-on-wrong-device
# guilty: self.seen
import torch
import torch.nn as nn


class CenterBank(nn.Module):
    def __init__(self, n_id, dim, momentum=0.9):
        super().__init__()
        self.n_id, self.dim, self.m = n_id, dim, momentum
        self.register_buffer("centers", torch.randn(n_id, dim))
        self.register_buffer("seen", torch.zeros(n_id))

    def new_epoch(self):
        self.seen = torch.zeros(self.n_id)

    def forward(self, z, ids):
        pull = (z - self.centers[ids]).pow(2).sum(1).mean()
        with torch.no_grad():
            self.seen.index_add_(0, ids, torch.ones_like(ids, dtype=torch.float32))
            delta = torch.zeros_like(self.centers).index_add_(0, ids, z - self.centers[ids])
            self.centers += (1 - self.m) * delta / self.seen.clamp(min=1)[:, None]
        return pull


device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
embed = nn.Sequential(nn.Flatten(), nn.Linear(256, 64), nn.ReLU(), nn.Linear(64, 16)).to(device)
bank = CenterBank(20, 16).to(device)
clf = nn.Linear(16, 20).to(device)
opt = torch.optim.SGD([*embed.parameters(), *clf.parameters()], lr=0.02)

for epoch in range(2):
    bank.new_epoch()
    for _ in range(3):
        face = torch.rand(16, 1, 16, 16).to(device)
        ids = torch.randint(0, 20, (16,)).to(device)
        z = embed(face)
        loss = nn.functional.cross_entropy(clf(z), ids) + 0.01 * bank(z, ids)
        opt.zero_grad()
        loss.backward()
        opt.step()
    print(epoch, loss.item(), int(bank.seen.sum()))
