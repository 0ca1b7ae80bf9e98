# cause: loss-or-label-on-other-device|extra-input-on-wrong-device
# guilty: batch["behaviour_logp"] (behaviour_logp)
"""Actor on one card, learner on another: off-policy corrected policy gradient."""
import copy

import torch
import torch.nn as nn
import torch.nn.functional as F


class CorridorEnv:
    def __init__(self, batch, length=8):
        self.batch, self.length = batch, length
        self.pos = torch.zeros(batch, dtype=torch.long)

    def observe(self):
        return F.one_hot(self.pos, self.length).float()

    def step(self, actions):
        self.pos = (self.pos + actions * 2 - 1).clamp(0, self.length - 1)
        reward = (self.pos == self.length - 1).float()
        self.pos[reward > 0] = 0
        return self.observe(), reward


class ActorCritic(nn.Module):
    def __init__(self, obs, actions, hidden=32):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(obs, hidden), nn.Tanh())
        self.policy, self.value = nn.Linear(hidden, actions), nn.Linear(hidden, 1)

    def forward(self, obs):
        h = self.body(obs)
        return self.policy(h), self.value(h).squeeze(-1)


class Actor:
    def __init__(self, model, env, device):
        self.model = copy.deepcopy(model).to(device)
        self.env, self.device = env, device

    def sync(self, model):
        self.model.load_state_dict(model.state_dict())

    @torch.no_grad()
    def rollout(self, steps):
        rows = {"obs": [], "actions": [], "rewards": [], "behaviour_logp": []}
        obs = self.env.observe()
        for _ in range(steps):
            logits, _ = self.model(obs.to(self.device))
            dist = torch.distributions.Categorical(logits=logits)
            action = dist.sample()
            rows["obs"].append(obs)
            rows["actions"].append(action)
            rows["behaviour_logp"].append(dist.log_prob(action))
            obs, reward = self.env.step(action.cpu())
            rows["rewards"].append(reward)
        return {k: torch.stack(v) for k, v in rows.items()}


class Learner:
    FIELDS = ("obs", "actions", "rewards")

    def __init__(self, model, device, gamma=0.95):
        self.model = model.to(device)
        self.device, self.gamma = device, gamma
        self.optimizer = torch.optim.RMSprop(self.model.parameters(), lr=1e-3)

    def receive(self, batch):
        return {k: v.to(self.device) if k in self.FIELDS else v for k, v in batch.items()}

    def vtrace(self, log_rhos, values, rewards):
        rhos = log_rhos.exp().clamp(max=1.0)
        following = torch.cat([values[1:], torch.zeros_like(values[:1])])
        deltas = rhos * (rewards + self.gamma * following - values)
        acc, out = torch.zeros_like(values[0]), []
        for t in reversed(range(len(values))):
            acc = deltas[t] + self.gamma * rhos[t] * acc
            out.append(values[t] + acc)
        return torch.stack(out[::-1]), rhos

    def update(self, batch):
        batch = self.receive(batch)
        logits, values = self.model(batch["obs"])
        logp = F.log_softmax(logits, -1).gather(-1, batch["actions"].unsqueeze(-1)).squeeze(-1)
        log_rhos = (logp - batch["behaviour_logp"]).detach()
        targets, rhos = self.vtrace(log_rhos, values.detach(), batch["rewards"])
        loss = -(rhos * (targets - values.detach()) * logp).mean() + 0.5 * F.mse_loss(values, targets)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.item()


if __name__ == "__main__":
    torch.manual_seed(0)
    model = ActorCritic(8, 2)
    learner = Learner(model, "cuda:0")
    actor = Actor(model, CorridorEnv(16), "cuda:1")
    for it in range(4):
        print(it, learner.update(actor.rollout(12)))
        actor.sync(learner.model)
