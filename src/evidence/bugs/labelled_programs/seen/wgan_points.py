# cause: tensor-created-on-wrong-device
# guilty: w
import math
import torch
import torch.nn as nn

BATCH, Z, STEPS, CRITIC = 32, 4, 3, 2
device = torch.device("cuda:0")


def net(i, o):
    return nn.Sequential(nn.Linear(i, 48), nn.LeakyReLU(0.2), nn.Linear(48, 48), nn.LeakyReLU(0.2), nn.Linear(48, o))


def ring(n, modes=8):
    k = torch.randint(0, modes, (n,), device=device).float() * (2 * math.pi / modes)
    return torch.stack([k.cos(), k.sin()], 1) + 0.02 * torch.randn(n, 2, device=device)


def mix(a, b):
    shape = (a.size(0),) + (1,) * (a.dim() - 1)
    w = torch.rand(shape)
    return torch.lerp(a, b, w.expand_as(a))


def penalty(critic, real, fake):
    x = mix(real, fake).requires_grad_(True)
    score = critic(x)
    (g,) = torch.autograd.grad(score.sum(), x, create_graph=True)
    return (g.flatten(1).norm(dim=1) - 1).pow(2).mean()


def critic_step(gen, critic, opt, lam=10.0):
    real = ring(BATCH)
    with torch.no_grad():
        fake = gen(torch.randn(BATCH, Z, device=device))
    loss = critic(fake).mean() - critic(real).mean() + lam * penalty(critic, real, fake)
    opt.zero_grad()
    loss.backward()
    opt.step()
    return loss.item()


def gen_step(gen, critic, opt):
    loss = -critic(gen(torch.randn(BATCH, Z, device=device))).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    return loss.item()


torch.manual_seed(0)
gen, critic = net(Z, 2).to(device), net(2, 1).to(device)
g_opt = torch.optim.Adam(gen.parameters(), 1e-3, betas=(0.0, 0.9))
c_opt = torch.optim.Adam(critic.parameters(), 1e-3, betas=(0.0, 0.9))
for step in range(STEPS):
    for _ in range(CRITIC):
        c = critic_step(gen, critic, c_opt)
    g = gen_step(gen, critic, g_opt)
    print(f"{step}: critic {c:.3f} generator {g:.3f}")
