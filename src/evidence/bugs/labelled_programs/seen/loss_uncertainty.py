# cause: module-left-on-other-device|loss-or-label-on-other-device
# guilty: self.log_var (torch.exp(-self.log_var))
import torch
import torch.nn as nn
import torch.nn.functional as F


class DepthNormalNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.shared = nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 16, 3, padding=1), nn.ReLU())
        self.depth = nn.Conv2d(16, 1, 1)
        self.normal = nn.Conv2d(16, 3, 1)
        self.sem = nn.Conv2d(16, 6, 1)

    def forward(self, x):
        f = self.shared(x)
        return self.depth(f), F.normalize(self.normal(f), dim=1), self.sem(f)


class Balancer(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.log_var = nn.Parameter(torch.zeros(n))

    def forward(self, losses):
        stacked = torch.stack(losses)
        return (torch.exp(-self.log_var) * stacked + self.log_var).sum()


device = "cuda:0"
net = DepthNormalNet().to(device)
balance = Balancer(3)
opt = torch.optim.Adam([{"params": net.parameters()}, {"params": balance.parameters(), "lr": 1e-2}], lr=1e-3)
for i in range(3):
    rgb = torch.rand(2, 3, 16, 16, device=device)
    d_gt = torch.rand(2, 1, 16, 16, device=device)
    n_gt = F.normalize(torch.randn(2, 3, 16, 16, device=device), dim=1)
    s_gt = torch.randint(0, 6, (2, 16, 16), device=device)
    d, n, s = net(rgb)
    parts = [F.l1_loss(d, d_gt), 1 - (n * n_gt).sum(1).mean(), F.cross_entropy(s, s_gt)]
    loss = balance(parts)
    opt.zero_grad()
    loss.backward()
    opt.step()
    print([round(p.item(), 3) for p in parts], balance.log_var.tolist())
