# cause: tensor-created-on-wrong-device
# guilty: self.prior (prior.loc or prior.scale)
import torch
import torch.nn as nn
from torch.distributions import Normal, kl_divergence


class BayesLinear(nn.Module):
    def __init__(self, i, o, prior_std=1.0):
        super().__init__()
        self.mu = nn.Parameter(torch.randn(o, i) * 0.1)
        self.rho = nn.Parameter(torch.full((o, i), -3.0))
        self.prior = Normal(torch.zeros(o, i), torch.full((o, i), prior_std))

    def posterior(self):
        return Normal(self.mu, nn.functional.softplus(self.rho))

    def forward(self, x):
        return x @ self.posterior().rsample().t()

    def kl(self):
        return kl_divergence(self.posterior(), self.prior).sum()


torch.manual_seed(0)
net = nn.Sequential(BayesLinear(4, 8), nn.Tanh(), BayesLinear(8, 1)).to("cuda:0")
opt = torch.optim.Adam(net.parameters(), 1e-2)
x = torch.randn(20, 4, device="cuda:0")
y = x.sum(1, keepdim=True)
for _ in range(3):
    fit = (net(x) - y).pow(2).mean()
    loss = fit + 1e-3 * sum(m.kl() for m in net if isinstance(m, BayesLinear))
    opt.zero_grad()
    loss.backward()
    opt.step()
print(loss.item())
