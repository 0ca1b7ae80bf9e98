# cause: checkpoint-map-location
# guilty: self.mean
import io
import torch
import torch.nn as nn


class RunningNorm:
    def __init__(self, dim, device):
        self.mean = torch.zeros(dim, device=device)
        self.var = torch.ones(dim, device=device)
        self.n = 1e-4

    def update(self, x):
        bm, bv, n = x.mean(0), x.var(0, unbiased=False), x.size(0)
        delta, tot = bm - self.mean, self.n + n
        self.mean = self.mean + delta * n / tot
        self.var = (self.var * self.n + bv * n + delta ** 2 * self.n * n / tot) / tot
        self.n = tot

    def __call__(self, x):
        return (x - self.mean) / (self.var + 1e-6).sqrt()

    def state(self):
        return dict(vars(self))

    def restore(self, state):
        self.__dict__.update(state)


class Agent:
    def __init__(self, device, obs=6, act=3):
        self.device = torch.device(device)
        self.pi = nn.Sequential(nn.Linear(obs, 32), nn.Tanh(), nn.Linear(32, act)).to(self.device)
        self.norm = RunningNorm(obs, self.device)
        self.opt = torch.optim.Adam(self.pi.parameters(), 3e-3)

    def learn(self, steps=3):
        for _ in range(steps):
            obs = 5 + 3 * torch.randn(64, 6, device=self.device)
            self.norm.update(obs)
            dist = torch.distributions.Categorical(logits=self.pi(self.norm(obs)))
            a = dist.sample()
            reward = (a == (obs[:, 0] > 5).long()).float()
            loss = -(dist.log_prob(a) * (reward - reward.mean())).mean()
            self.opt.zero_grad()
            loss.backward()
            self.opt.step()
        return reward.mean().item()

    def save(self, f):
        torch.save({"pi": self.pi.state_dict(), "opt": self.opt.state_dict(), "norm": self.norm.state()}, f)

    def load(self, f):
        ck = torch.load(f)
        self.pi.load_state_dict(ck["pi"])
        self.opt.load_state_dict(ck["opt"])
        self.norm.restore(ck["norm"])
        return self


def main():
    buf = io.BytesIO()
    first = Agent("cuda:0")
    print("before", first.learn())
    first.save(buf)
    buf.seek(0)
    second = Agent("cuda:1").load(buf)
    print("after", second.learn())


main()
