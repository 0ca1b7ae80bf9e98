# cause: module-left-on-other-device
# guilty: self.hyper_w (self.hyper_w.weight, self.target_mixer, self)
# line: 29
# repair: in CoopLearner.cuda_all move self.target_mixer to mixer_device too OR make the deepcopy of the mixer after the mixer was moved
"""Cooperative agents with a mixing network (monotonic value factorisation)."""
import copy
import torch
import torch.nn as nn


class AgentNet(nn.Module):
    def __init__(self, obs, hidden, actions):
        super().__init__()
        self.fc = nn.Sequential(nn.Linear(obs, hidden), nn.ReLU(), nn.Linear(hidden, actions))

    def forward(self, obs):
        return self.fc(obs)


class Mixer(nn.Module):
    def __init__(self, n_agents, state, embed=8):
        super().__init__()
        self.n_agents, self.embed = n_agents, embed
        self.hyper_w = nn.Linear(state, n_agents * embed)
        self.hyper_b = nn.Linear(state, embed)
        self.hyper_v = nn.Linear(state, embed)

    def forward(self, qs, state):
        w = self.hyper_w(state).abs().view(-1, self.n_agents, self.embed)
        h = torch.relu(torch.bmm(qs.unsqueeze(1), w).squeeze(1) + self.hyper_b(state))
        return (h * self.hyper_v(state).abs()).sum(-1)


class CoopLearner:
    def __init__(self, n_agents, obs, state, actions, agent_device, mixer_device):
        self.agent = AgentNet(obs, 32, actions)
        self.mixer = Mixer(n_agents, state)
        self.target_agent = copy.deepcopy(self.agent)
        self.target_mixer = copy.deepcopy(self.mixer)
        self.agent_device, self.mixer_device = agent_device, mixer_device
        self.cuda_all()
        params = list(self.agent.parameters()) + list(self.mixer.parameters())
        self.opt = torch.optim.RMSprop(params, lr=5e-4)

    def cuda_all(self):
        for net in (self.agent, self.target_agent):
            net.to(self.agent_device)
        self.mixer.to(self.mixer_device)

    def sync_targets(self):
        self.target_agent.load_state_dict(self.agent.state_dict())
        self.target_mixer.load_state_dict(self.mixer.state_dict())

    def train(self, batch, gamma=0.99):
        obs, next_obs = (batch[k].to(self.agent_device) for k in ("obs", "next_obs"))
        state, next_state = (batch[k].to(self.mixer_device) for k in ("state", "next_state"))
        reward = batch["reward"].to(self.mixer_device)
        act = batch["act"].to(self.agent_device)
        chosen = self.agent(obs).gather(-1, act.unsqueeze(-1)).squeeze(-1)
        total = self.mixer(chosen.to(self.mixer_device), state)
        with torch.no_grad():
            best = self.target_agent(next_obs).max(-1).values.to(self.mixer_device)
            target = reward + gamma * self.target_mixer(best, next_state)
        loss = ((total - target) ** 2).mean()
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        return loss.item()


def fake_batch(b=16, n=3):
    return {"obs": torch.randn(b, n, 6), "next_obs": torch.randn(b, n, 6), "state": torch.randn(b, 10),
            "next_state": torch.randn(b, 10), "act": torch.randint(0, 4, (b, n)), "reward": torch.randn(b)}


if __name__ == "__main__":
    torch.manual_seed(0)
    learner = CoopLearner(3, 6, 10, 4, "cuda:0", "cuda:1")
    for it in range(4):
        print(it, learner.train(fake_batch()))
        learner.sync_targets()
