# cause: hard-coded-device|tensor-created-on-wrong-device
# guilty: self.low (self.high, low, high)
# line: 15
# repair: in make_agent move the line bounds = ActionBounds(...) into the block with torch.cuda.device(card) OR give ActionBounds a device (torch.tensor(low, device=f"cuda:{card}")) in place of .cuda() OR in ActionBounds.squash use self.low.to(raw.device) and self.high.to(raw.device)
import torch
import torch.nn as nn


class ActionBounds:
    def __init__(self, low, high):
        self.low = torch.tensor(low).cuda()
        self.high = torch.tensor(high).cuda()

    def squash(self, raw):
        return self.low + (torch.tanh(raw) + 1) * 0.5 * (self.high - self.low)


class Actor(nn.Module):
    def __init__(self, n_obs, bounds, width=32):
        super().__init__()
        self.bounds = bounds
        self.net = nn.Sequential(nn.Linear(n_obs, width), nn.Tanh(), nn.Linear(width, len(bounds.low)))

    def forward(self, obs):
        return self.bounds.squash(self.net(obs))


class Critic(nn.Module):
    def __init__(self, n_obs, n_act, width=32):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(n_obs + n_act, width), nn.ReLU(), nn.Linear(width, 1))

    def forward(self, obs, act):
        return self.net(torch.cat([obs, act], dim=-1)).squeeze(-1)


class Agent:
    def __init__(self, name, actor, critic):
        self.name, self.actor, self.critic = name, actor, critic
        self.opt_a = torch.optim.Adam(actor.parameters(), lr=1e-3)
        self.opt_c = torch.optim.Adam(critic.parameters(), lr=1e-3)

    def learn(self, obs, reward, noise=0.1):
        act = self.actor(obs)
        with torch.no_grad():
            played = act + noise * torch.randn_like(act)
        value_loss = (self.critic(obs, played) - reward(obs, played)).pow(2).mean()
        self.opt_c.zero_grad()
        value_loss.backward()
        self.opt_c.step()
        policy_loss = -self.critic(obs, self.actor(obs)).mean()
        self.opt_a.zero_grad()
        policy_loss.backward()
        self.opt_a.step()
        return value_loss.item()


def make_agent(name, card, n_obs=6):
    bounds = ActionBounds(low=[-1.0, 0.0], high=[1.0, 5.0])
    with torch.cuda.device(card):
        actor = Actor(n_obs, bounds).cuda()
        critic = Critic(n_obs, len(bounds.low)).cuda()
    return Agent(name, actor, critic)


def thrust_cost(obs, act):
    return -(act[:, 1] - obs[:, 0].abs()).pow(2) - 0.1 * act[:, 0].pow(2)


if __name__ == "__main__":
    torch.manual_seed(0)
    team = [make_agent("scout", 0), make_agent("hauler", 1)]
    for episode in range(2):
        for card, agent in enumerate(team):
            obs = torch.randn(32, 6, device=f"cuda:{card}")
            print(episode, agent.name, round(agent.learn(obs, thrust_cost), 4))
