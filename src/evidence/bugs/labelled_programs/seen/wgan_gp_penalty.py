# cause: tensor-created-on-wrong-device
# guilty: alpha
"""WGAN-GP on a mixture of Gaussians."""
import torch
from torch import autograd, nn, optim


def mixture(n, device):
    k = torch.randint(0, 8, (n,), device=device)
    angle = k.float() * 0.7854
    centre = torch.stack([angle.cos(), angle.sin()], 1)
    return 2 * centre + 0.05 * torch.randn(n, 2, device=device)


def mlp(i, o, h=32):
    return nn.Sequential(nn.Linear(i, h), nn.ReLU(), nn.Linear(h, h), nn.ReLU(), nn.Linear(h, o))


def gradient_penalty(critic, real, fake, weight=10.0):
    alpha = torch.rand(real.size(0), 1).expand_as(real)
    mixed = (alpha * real + (1 - alpha) * fake).requires_grad_(True)
    score = critic(mixed)
    (grad,) = autograd.grad(score, mixed, grad_outputs=torch.ones_like(score), create_graph=True)
    return weight * ((grad.norm(2, dim=1) - 1) ** 2).mean()


def train(device, iterations=3, n_critic=2, batch=32, latent=4):
    gen, critic = mlp(latent, 2).to(device), mlp(2, 1).to(device)
    opt_g = optim.Adam(gen.parameters(), lr=1e-4, betas=(0.0, 0.9))
    opt_c = optim.Adam(critic.parameters(), lr=1e-4, betas=(0.0, 0.9))
    log = []
    for _ in range(iterations):
        for _ in range(n_critic):
            real = mixture(batch, device)
            fake = gen(torch.randn(batch, latent, device=device)).detach()
            loss_c = critic(fake).mean() - critic(real).mean()
            loss_c = loss_c + gradient_penalty(critic, real, fake)
            opt_c.zero_grad()
            loss_c.backward()
            opt_c.step()
        z = torch.randn(batch, latent, device=device)
        loss_g = -critic(gen(z)).mean()
        opt_g.zero_grad()
        loss_g.backward()
        opt_g.step()
        log.append((loss_c.item(), loss_g.item()))
    return log


if __name__ == "__main__":
    torch.manual_seed(0)
    for row in train(torch.device("cuda:1")):
        print("critic %.3f  generator %.3f" % row)
