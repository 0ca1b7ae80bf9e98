# cause: module-left-on-other-device|optimizer-state-on-other-device|hard-coded-device
# guilty: p (online, p.data)
# line: 25
# repair: in soft_update add p.data.to(t.device, non_blocking=True) OR in SoftAgent.__init__ put the target critics on the card of the critics (self.card instead of self.spare)
"""Off-policy agent; the frozen target critics live on a spare card to save memory."""
import copy
import torch
from torch import nn


class Critic(nn.Module):
    def __init__(self, obs, act, width=64):
        super().__init__()
        self.q1 = nn.Sequential(nn.Linear(obs + act, width), nn.ReLU(), nn.Linear(width, 1))
        self.q2 = nn.Sequential(nn.Linear(obs + act, width), nn.ReLU(), nn.Linear(width, 1))

    def forward(self, o, a):
        x = torch.cat([o, a], dim=-1)
        return self.q1(x), self.q2(x)


@torch.no_grad()
def soft_update(target, online, tau):
    for t, p in zip(target.parameters(), online.parameters()):
        t.data.mul_(1.0 - tau).add_(p.data, alpha=tau)


class SoftAgent:
    def __init__(self, obs=8, act=2, card="cuda:0", spare="cuda:1", tau=0.01, gamma=0.98):
        self.card, self.spare = torch.device(card), torch.device(spare)
        self.actor = nn.Sequential(nn.Linear(obs, 64), nn.Tanh(), nn.Linear(64, act), nn.Tanh()).to(self.card)
        self.critic = Critic(obs, act).to(self.card)
        self.target = copy.deepcopy(self.critic).to(self.spare).requires_grad_(False)
        self.opt_c = torch.optim.Adam(self.critic.parameters(), lr=3e-4)
        self.opt_a = torch.optim.Adam(self.actor.parameters(), lr=3e-4)
        self.tau, self.gamma = tau, gamma

    @torch.no_grad()
    def backup(self, reward, nxt):
        a = self.actor(nxt)
        q1, q2 = self.target(nxt.to(self.spare), a.to(self.spare))
        return reward + self.gamma * torch.minimum(q1, q2).to(self.card)

    def update(self, batch):
        o, a, r, n = (x.to(self.card) for x in batch)
        y = self.backup(r, n)
        q1, q2 = self.critic(o, a)
        loss = (q1 - y).pow(2).mean() + (q2 - y).pow(2).mean()
        self.opt_c.zero_grad()
        loss.backward()
        self.opt_c.step()
        pi = -self.critic(o, self.actor(o))[0].mean()
        self.opt_a.zero_grad()
        pi.backward()
        self.opt_a.step()
        soft_update(self.target, self.critic, self.tau)
        return loss.item()


if __name__ == "__main__":
    agent = SoftAgent()
    for i in range(3):
        batch = (torch.randn(32, 8), torch.rand(32, 2), torch.randn(32, 1), torch.randn(32, 8))
        print(i, agent.update(batch))
