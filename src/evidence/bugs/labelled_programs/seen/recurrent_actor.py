# cause: cache-or-beam-state-on-wrong-device|tensor-created-on-wrong-device
# guilty: self.state
import torch
import torch.nn as nn


class Corridor:
    """Remember the first signal, act on it at the end."""

    def __init__(self, n, length, device):
        self.n, self.length, self.device = n, length, device

    def reset(self):
        self.t = 0
        self.goal = torch.randint(0, 2, (self.n,), device=self.device)
        return self.observe()

    def observe(self):
        o = torch.zeros(self.n, 3, device=self.device)
        o[:, 0] = self.t / self.length
        if self.t == 0:
            o[torch.arange(self.n, device=self.device), 1 + self.goal] = 1
        return o

    def step(self, action):
        self.t += 1
        done = self.t >= self.length
        reward = (action == self.goal).float() if done else torch.zeros(self.n, device=self.device)
        return self.observe(), reward, done


class Actor(nn.Module):
    def __init__(self, obs=3, hid=24, act=2):
        super().__init__()
        self.cell = nn.GRU(obs, hid)
        self.pi = nn.Linear(hid, act)
        self.hid = hid
        self.state = None

    def begin(self, n):
        self.state = torch.zeros(1, n, self.hid)

    def forward(self, obs):
        out, self.state = self.cell(obs.unsqueeze(0), self.state)
        return torch.distributions.Categorical(logits=self.pi(out[0]))


def rollout(env, actor):
    actor.begin(env.n)
    obs, done, logp = env.reset(), False, 0.0
    while not done:
        dist = actor(obs)
        a = dist.sample()
        logp = logp + dist.log_prob(a)
        obs, reward, done = env.step(a)
    return logp, reward


def main(device="cuda", iterations=5):
    torch.manual_seed(0)
    env = Corridor(32, 5, device)
    actor = Actor().to(device)
    opt = torch.optim.Adam(actor.parameters(), 1e-2)
    for i in range(iterations):
        logp, reward = rollout(env, actor)
        loss = -(logp * (reward - reward.mean())).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        print(i, reward.mean().item())


main()
