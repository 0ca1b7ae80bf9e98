# cause: tensor-created-on-wrong-device
# guilty: self.alphas_bar
"""Discrete diffusion over molecule graphs: the noise schedule part."""
import math

import torch
from torch import nn


class PredefinedNoiseScheduleDiscrete(nn.Module):
    def __init__(self, timesteps, s=0.008):
        super().__init__()
        self.timesteps = timesteps
        x = torch.linspace(0, timesteps, timesteps + 1)
        ac = torch.cos(0.5 * math.pi * ((x / timesteps) + s) / (1 + s)) ** 2
        ac = ac / ac[0]
        betas = 1 - ac[1:] / ac[:-1]
        self.register_buffer("betas", betas.clamp(max=0.999))
        self.alphas = 1 - self.betas
        self.alphas_bar = torch.exp(torch.cumsum(torch.log(self.alphas), 0))

    def forward(self, t_normalized):
        t_int = torch.round(t_normalized * (self.timesteps - 1)).long()
        return self.betas[t_int]

    def get_alpha_bar(self, t_normalized):
        t_int = torch.round(t_normalized * (self.timesteps - 1)).long()
        return self.alphas_bar[t_int]


class Transition(nn.Module):
    def __init__(self, n_types):
        super().__init__()
        self.n = n_types
        self.register_buffer("u", torch.full((1, n_types, n_types), 1.0 / n_types))

    def qt_bar(self, a_bar):
        a = a_bar.view(-1, 1, 1)
        return a * torch.eye(self.n, device=a.device).unsqueeze(0) + (1 - a) * self.u


class Denoiser(nn.Module):
    def __init__(self, n_types=5, d=32, steps=50):
        super().__init__()
        self.schedule = PredefinedNoiseScheduleDiscrete(steps)
        self.transition = Transition(n_types)
        self.mlp = nn.Sequential(nn.Linear(n_types + 1, d), nn.SiLU(), nn.Linear(d, n_types))

    def apply_noise(self, nodes):
        t = torch.rand(len(nodes), 1, device=nodes.device)
        q = self.transition.qt_bar(self.schedule.get_alpha_bar(t))
        p = nodes @ q
        drawn = torch.multinomial(p.flatten(0, 1), 1).view(nodes.shape[:2])
        return nn.functional.one_hot(drawn, nodes.shape[-1]).float(), t

    def loss(self, nodes):
        noisy, t = self.apply_noise(nodes)
        t = t[:, None].expand(-1, nodes.shape[1], 1)
        return nn.functional.cross_entropy(self.mlp(torch.cat([noisy, t], -1)).flatten(0, 1), nodes.flatten(0, 1))


def main():
    net = Denoiser().to("cuda:1")
    opt = torch.optim.AdamW(net.parameters(), 2e-4)
    for _ in range(2):
        atoms = nn.functional.one_hot(torch.randint(0, 5, (8, 9)), 5).float().to("cuda:1")
        loss = net.loss(atoms)
        opt.zero_grad()
        loss.backward()
        opt.step()


main()
