# cause: hard-coded-device
# guilty: t
import torch
from torch import nn


def mlp(i, o):
    return nn.Sequential(nn.Linear(i, 32), nn.LeakyReLU(0.2), nn.Linear(32, o))


def penalty(critic, real, fake):
    t = torch.rand(real.size(0), 1).cuda()
    mid = (t * real + (1 - t) * fake).requires_grad_(True)
    score = critic(mid).sum()
    (g,) = torch.autograd.grad(score, mid, create_graph=True)
    return ((g.norm(2, dim=1) - 1) ** 2).mean()


def main(device):
    gen, critic = mlp(8, 5).to(device), mlp(5, 1).to(device)
    og = torch.optim.Adam(gen.parameters(), 1e-4, betas=(0.0, 0.9))
    oc = torch.optim.Adam(critic.parameters(), 1e-4, betas=(0.0, 0.9))
    for step in range(6):
        real = torch.randn(16, 5, device=device)
        z = torch.randn(16, 8, device=device)
        fake = gen(z).detach()
        loss = critic(fake).mean() - critic(real).mean()
        loss = loss + 10 * penalty(critic, real, fake)
        oc.zero_grad()
        loss.backward()
        oc.step()
        if step % 5 == 4:
            og.zero_grad()
            (-critic(gen(z)).mean()).backward()
            og.step()


main(torch.device("cuda:1"))
