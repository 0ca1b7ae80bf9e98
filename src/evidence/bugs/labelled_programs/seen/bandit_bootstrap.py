# cause: generator-or-default-device|generator-on-other-device
# guilty: gen
import torch
import torch.nn as nn

device = torch.device("cuda:0")
gen = torch.Generator(device=device).manual_seed(99)


def simulate(n):
    ctx = torch.randn(n, 6, generator=gen, device=device)
    arm = torch.randint(0, 3, (n,), generator=gen, device=device)
    theta = torch.tensor([[1.0, -1, 0, 0, 0.5, 0], [0, 0, 1, 1, 0, 0], [0.3] * 6], device=device)
    reward = (ctx * theta[arm]).sum(1) + 0.1 * torch.randn(n, generator=gen, device=device)
    return ctx, arm, reward


class RewardNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.arms = nn.Embedding(3, 6)
        self.net = nn.Sequential(nn.Linear(12, 32), nn.Tanh(), nn.Linear(32, 1))

    def forward(self, ctx, arm):
        return self.net(torch.cat([ctx, self.arms(arm)], -1)).squeeze(-1)


ensemble = [RewardNet().to(device) for _ in range(3)]
optims = [torch.optim.Adam(m.parameters(), 1e-2) for m in ensemble]
ctx, arm, reward = simulate(400)
for epoch in range(3):
    for net, opt in zip(ensemble, optims):
        order = torch.randperm(len(ctx), generator=gen)
        for idx in order.split(100):
            loss = (net(ctx[idx], arm[idx]) - reward[idx]).pow(2).mean()
            opt.zero_grad()
            loss.backward()
            opt.step()
with torch.no_grad():
    votes = torch.stack([m(ctx, arm) for m in ensemble])
print("spread", votes.std(0).mean().item())
