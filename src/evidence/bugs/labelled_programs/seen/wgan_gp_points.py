# cause: hard-coded-device|tensor-created-on-wrong-device
# guilty: alpha
import math
import torch
from torch import nn, autograd

device = torch.device("cuda:1")
torch.manual_seed(0)


def ring(n, modes=8):
    k = torch.randint(0, modes, (n,), device=device)
    ang = 2 * math.pi * k / modes
    return torch.stack([ang.cos(), ang.sin()], 1) + 0.02 * torch.randn(n, 2, device=device)


def mlp(i, o, h=64):
    return nn.Sequential(nn.Linear(i, h), nn.LeakyReLU(0.2), nn.Linear(h, h), nn.LeakyReLU(0.2), nn.Linear(h, o))


G = mlp(4, 2).to(device)
D = mlp(2, 1).to(device)
opt_g = torch.optim.Adam(G.parameters(), 1e-3, betas=(0.5, 0.9))
opt_d = torch.optim.Adam(D.parameters(), 1e-3, betas=(0.5, 0.9))


def gradient_penalty(real, fake):
    alpha = torch.rand(real.size(0), 1).cuda()
    mixed = (alpha * real + (1 - alpha) * fake).requires_grad_(True)
    score = D(mixed)
    grad, = autograd.grad(score, mixed, grad_outputs=torch.ones_like(score), create_graph=True)
    return ((grad.norm(dim=1) - 1) ** 2).mean()


def critic_step(n=32, lam=10.0):
    real = ring(n)
    with torch.no_grad():
        fake = G(torch.randn(n, 4, device=device))
    loss = D(fake).mean() - D(real).mean() + lam * gradient_penalty(real, fake)
    opt_d.zero_grad()
    loss.backward()
    opt_d.step()
    return loss.item()


def generator_step(n=32):
    z = torch.randn(n, 4).to(device)
    loss = -D(G(z)).mean()
    opt_g.zero_grad()
    loss.backward()
    opt_g.step()
    return loss.item()


for it in range(3):
    d = [critic_step() for _ in range(3)]
    g = generator_step()
    print(it, d[-1], g)
with torch.no_grad():
    radius = G(torch.randn(64, 4, device=device)).norm(dim=1)
print("mean radius", radius.mean().cpu().item())
