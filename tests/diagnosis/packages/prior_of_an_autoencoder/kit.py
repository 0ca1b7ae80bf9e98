import torch
from torch import nn


class Auto(nn.Module):
    def __init__(self, size=6, latent=2):
        super().__init__()
        self.encoder = nn.Linear(size, 2 * latent)
        self.prior = torch.distributions.Normal(torch.zeros(latent), torch.ones(latent), validate_args=False)

    def forward(self, x):
        mean, log = self.encoder(x).chunk(2, dim=-1)
        posterior = torch.distributions.Normal(mean, log.exp(), validate_args=False)
        z = posterior.rsample()
        return (posterior.log_prob(z) - self.prior.log_prob(z)).sum(-1)
