# cause: cross-device-operands
# guilty: outs
import torch
import torch.nn as nn


def make_member(seed):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(10, 64), nn.ELU(), nn.Linear(64, 64), nn.ELU(), nn.Linear(64, 2))


class DeepEnsemble:
    def __init__(self, size):
        count = max(1, torch.cuda.device_count())
        self.members = []
        for i in range(size):
            self.members.append(make_member(i).to(f"cuda:{i % count}"))

    def fit(self, x, y, epochs=4):
        for net in self.members:
            home = next(net.parameters()).device
            xx, yy = x.to(home), y.to(home)
            opt = torch.optim.Adam(net.parameters(), lr=1e-2)
            for _ in range(epochs):
                mean, log_s = net(xx).unbind(-1)
                loss = (log_s + (yy - mean) ** 2 * torch.exp(-2 * log_s) / 2).mean()
                opt.zero_grad()
                loss.backward()
                opt.step()

    @torch.no_grad()
    def predict(self, x):
        outs = []
        for net in self.members:
            home = next(net.parameters()).device
            outs.append(net(x.to(home)))
        mean, log_s = torch.stack(outs).unbind(-1)
        return mean.mean(0), (mean.var(0) + (2 * log_s).exp().mean(0)).sqrt()


x = torch.randn(256, 10)
y = x[:, 0] * 2 - x[:, 1] + 0.1 * torch.randn(256)
ens = DeepEnsemble(4)
ens.fit(x, y)
mu, sigma = ens.predict(x[:32])
print(mu.shape, sigma.mean().item())
