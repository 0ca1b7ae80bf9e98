# cause: module-left-on-other-device|loss-or-label-on-other-device
# guilty: self.proxies (P or proxies or F.normalize(self.proxies))
"""Metric learning with learnable class proxies."""
import torch
import torch.nn.functional as F
from torch import nn


class ProxyAnchor(nn.Module):
    def __init__(self, n_classes, dim, margin=0.1, alpha=32.0):
        super().__init__()
        self.proxies = nn.Parameter(torch.randn(n_classes, dim))
        nn.init.kaiming_normal_(self.proxies, mode="fan_out")
        self.n_classes, self.margin, self.alpha = n_classes, margin, alpha

    def forward(self, emb, y):
        cos = F.linear(F.normalize(emb), F.normalize(self.proxies))
        pos = F.one_hot(y, self.n_classes).bool()
        p = torch.where(pos, torch.exp(-self.alpha * (cos - self.margin)), torch.zeros_like(cos)).sum(0)
        n = torch.where(~pos, torch.exp(self.alpha * (cos + self.margin)), torch.zeros_like(cos)).sum(0)
        return torch.log1p(p).mean() + torch.log1p(n).mean()


def backbone(dim):
    return nn.Sequential(
        nn.Conv2d(3, 16, 5, 2), nn.ReLU(), nn.Conv2d(16, 32, 5, 2), nn.ReLU(),
        nn.AdaptiveMaxPool2d(1), nn.Flatten(), nn.Linear(32, dim),
    )


cfg = dict(classes=12, dim=32, lr=1e-4, device="cuda:0")
net = backbone(cfg["dim"]).to(cfg["device"])
criterion = ProxyAnchor(cfg["classes"], cfg["dim"])
optimizer = torch.optim.AdamW(
    [{"params": net.parameters()}, {"params": criterion.parameters(), "lr": cfg["lr"] * 100}], lr=cfg["lr"]
)
for it in range(2):
    images = torch.randn(6, 3, 40, 40).to(cfg["device"])
    labels = torch.randint(0, cfg["classes"], (6,)).to(cfg["device"])
    loss = criterion(net(images), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(it, loss.item())
