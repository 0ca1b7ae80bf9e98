# cause: offload-hook-bypassed
# guilty: self.codes
import torch
from accelerate import cpu_offload
from torch import nn


class Quantiser(nn.Module):
    def __init__(self, n=32, d=8):
        super().__init__()
        self.codes = nn.Parameter(torch.randn(n, d))

    def nearest(self, z):
        far = z.pow(2).sum(-1, keepdim=True) - 2 * z @ self.codes.t()
        return far.argmin(-1)

    def forward(self, z):
        return self.codes[self.nearest(z)]


class Autoencoder(nn.Module):
    def __init__(self, d=8):
        super().__init__()
        self.enc = nn.Sequential(nn.Linear(20, 32), nn.ReLU(), nn.Linear(32, d))
        self.vq = Quantiser(32, d)
        self.dec = nn.Linear(d, 20)

    def forward(self, x):
        return self.dec(self.vq(self.enc(x)))

    def tokens(self, x):
        return self.vq.nearest(self.enc(x))


model = Autoencoder().eval()
cpu_offload(model, execution_device=torch.device("cuda:0"))

with torch.no_grad():
    x = torch.randn(6, 20, device="cuda:0")
    again = model(x)
    print("error", (again - x).pow(2).mean().item())
    print("tokens", model.tokens(x).tolist())
