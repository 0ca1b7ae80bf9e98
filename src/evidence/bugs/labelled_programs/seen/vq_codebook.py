# cause: tensor-created-on-wrong-device|metric-state-device
# guilty: self.usage
import torch
import torch.nn as nn
import torch.nn.functional as F


class VectorQuantizer(nn.Module):
    def __init__(self, k=64, d=16, beta=0.25):
        super().__init__()
        self.k, self.beta = k, beta
        self.codes = nn.Parameter(torch.randn(k, d) / k)
        self.usage = torch.zeros(k)

    def forward(self, z):
        b, d, h, w = z.shape
        flat = z.permute(0, 2, 3, 1).reshape(-1, d)
        idx = torch.cdist(flat, self.codes).argmin(1)
        q = self.codes[idx].view(b, h, w, d).permute(0, 3, 1, 2)
        loss = F.mse_loss(q, z.detach()) + self.beta * F.mse_loss(z, q.detach())
        if self.training:
            hits = F.one_hot(idx, self.k).float().sum(0)
            self.usage.mul_(0.99).add_(hits, alpha=0.01)
        return z + (q - z).detach(), loss

    def dead(self):
        return int((self.usage < 1e-3).sum())


class VQVAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.enc = nn.Sequential(nn.Conv2d(1, 16, 4, 2, 1), nn.ReLU(), nn.Conv2d(16, 16, 4, 2, 1))
        self.vq = VectorQuantizer()
        self.dec = nn.Sequential(nn.ConvTranspose2d(16, 16, 4, 2, 1), nn.ReLU(), nn.ConvTranspose2d(16, 1, 4, 2, 1))

    def forward(self, x):
        q, extra = self.vq(self.enc(x))
        return self.dec(q), extra


device = torch.device("cuda", 0)
model = VQVAE().to(device).train()
opt = torch.optim.Adam(model.parameters(), 1e-3)
for it in range(3):
    x = torch.rand(8, 1, 28, 28, device=device)
    rec, extra = model(x)
    loss = F.mse_loss(rec, x) + extra
    opt.zero_grad(); loss.backward(); opt.step()
    print(it, loss.item(), model.vq.dead())
