# cause: checkpoint-map-location|hard-coded-device
# guilty: self.mean (self.var)
# line: 94
# repair: in read_status load onto the viewer's card: torch.load(file, map_location=device) with device handed in OR move status["bonus"]["mean"] and ["var"] to self.device in CuriosityViewer.__init__
"""Replay a trained maze agent on another card and draw where its curiosity bonus is high."""
import io

import torch
import torch.nn as nn
import torch.nn.functional as F


class Policy(nn.Module):
    def __init__(self, obs=10, actions=4, hidden=32):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(obs, hidden), nn.Tanh())
        self.pi, self.v = nn.Linear(hidden, actions), nn.Linear(hidden, 1)

    def forward(self, obs):
        h = self.body(obs)
        return self.pi(h), self.v(h).squeeze(-1)


class Distilled(nn.Module):
    """Fixed target and learned predictor; their distance is the novelty of a state."""

    def __init__(self, obs=10, width=16):
        super().__init__()
        self.target = nn.Sequential(nn.Linear(obs, width), nn.ReLU(), nn.Linear(width, width))
        self.predictor = nn.Sequential(nn.Linear(obs, width), nn.ReLU(), nn.Linear(width, width))
        for p in self.target.parameters():
            p.requires_grad_(False)

    def forward(self, obs):
        return (self.predictor(obs) - self.target(obs)).pow(2).mean(-1)


class Maze:
    def __init__(self, obs=10, seed=0):
        self.g = torch.Generator().manual_seed(seed)
        self.obs = obs

    def reset(self):
        self.state = torch.randn(self.obs, generator=self.g)
        return self.state

    def step(self, action):
        self.state = 0.9 * self.state + 0.3 * torch.randn(self.obs, generator=self.g)
        self.state[action] += 0.5
        return self.state


def train(card, steps=40):
    policy, novelty = Policy().to(card), Distilled().to(card)
    optimizer = torch.optim.Adam(list(policy.parameters()) + list(novelty.predictor.parameters()), lr=1e-3)
    mean, var = torch.zeros(10, device=card), torch.ones(10, device=card)
    env = Maze()
    obs = env.reset()
    for _ in range(steps):
        x = obs.to(card)
        mean = 0.95 * mean + 0.05 * x
        var = 0.95 * var + 0.05 * (x - mean).pow(2)
        logits, value = policy(x[None])
        dist = torch.distributions.Categorical(logits=logits)
        action = dist.sample()
        bonus = novelty(((x - mean) / var.sqrt()).clamp(-5, 5)[None])
        advantage = (bonus - value).detach()
        loss = -(dist.log_prob(action) * advantage).mean() + F.mse_loss(value, bonus.detach()) + bonus.mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        obs = env.step(action.item())
    status = {"policy": policy.state_dict(), "novelty": novelty.state_dict(), "steps": steps,
              "bonus": {"mean": mean, "var": var}}
    file = io.BytesIO()
    torch.save(status, file)
    return file


def read_status(file):
    file.seek(0)
    return torch.load(file, map_location=lambda storage, place: storage.cuda())


class CuriosityViewer:
    def __init__(self, status, device):
        self.device = torch.device(device)
        self.policy, self.novelty = Policy().to(self.device).eval(), Distilled().to(self.device).eval()
        self.policy.load_state_dict(status["policy"])
        self.novelty.load_state_dict(status["novelty"])
        self.mean, self.var = status["bonus"]["mean"], status["bonus"]["var"]

    def bonus(self, obs):
        scaled = (obs - self.mean) / self.var.sqrt()
        return self.novelty(scaled.clamp(-5, 5)).item()

    @torch.no_grad()
    def play(self, env, steps=8):
        trace, obs = [], env.reset()
        for _ in range(steps):
            x = obs[None].to(self.device)
            logits, value = self.policy(x)
            trace.append((logits.argmax(-1).item(), round(value.item(), 3), round(self.bonus(x), 3)))
            obs = env.step(trace[-1][0])
        return trace


def main():
    torch.manual_seed(0)
    file = train("cuda:0")
    viewer = CuriosityViewer(read_status(file), "cuda:1")
    for row in viewer.play(Maze(seed=4)):
        print(row)


if __name__ == "__main__":
    main()
