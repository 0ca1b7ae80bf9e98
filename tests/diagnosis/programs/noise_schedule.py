# cause: tensor-created-on-wrong-device
import torch


class Diffusion:
    def __init__(self, steps=100):
        self.betas = torch.linspace(1e-4, 0.02, steps)
        self.alphas_bar = torch.cumprod(1.0 - self.betas, dim=0)

    def add_noise(self, x, t):
        a = self.alphas_bar[t].view(-1, 1)
        return a.sqrt() * x + (1 - a).sqrt() * torch.randn_like(x)


d = Diffusion()
x = torch.randn(4, 8, device="cuda:0")
t = torch.randint(0, 100, (4,), device="cuda:0")
d.add_noise(x, t)
