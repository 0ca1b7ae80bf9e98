# cause: cache-or-beam-state-on-wrong-device|loss-or-label-on-other-device
# guilty: following (last_value, next_value)
# line: 41
# repair: in Rollout.finish move the bootstrap value to the device of the storage: last_value = last_value.to(self.values.device) (the writes into the storage copy silently, the bootstrap value does not)
"""Actor on card 0, critic on card 1, a rollout storage on card 0, PPO-like update."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class PointEnv:
    """Many points that are to be pushed to the origin."""

    def __init__(self, n):
        self.state = torch.randn(n, 4)

    def step(self, action):
        push = F.one_hot(action.cpu(), 4).float() - 0.25
        self.state = 0.98 * self.state - 0.1 * push
        return self.state, -self.state.norm(dim=1)


class Rollout:
    def __init__(self, horizon, n, obs_dim, device):
        zeros = lambda *shape: torch.zeros(horizon, n, *shape, device=device)
        self.obs, self.actions = zeros(obs_dim), zeros().long()
        self.rewards, self.values, self.logp = zeros(), zeros(), zeros()
        self.horizon, self.t = horizon, 0

    def add(self, obs, action, reward, value, logp):
        for store, item in zip((self.obs, self.actions, self.rewards, self.values, self.logp),
                               (obs, action, reward, value, logp)):
            store[self.t] = item
        self.t = (self.t + 1) % self.horizon

    def finish(self, last_value, gamma=0.97, lam=0.9):
        advantage = torch.zeros_like(self.rewards)
        running = torch.zeros_like(self.rewards[0])
        for t in reversed(range(self.horizon)):
            following = last_value if t == self.horizon - 1 else self.values[t + 1]
            delta = self.rewards[t] + gamma * following - self.values[t]
            running = delta + gamma * lam * running
            advantage[t] = running
        return advantage, advantage + self.values


class Agent:
    def __init__(self, obs_dim, actions, actor_card, critic_card):
        net = lambda out: nn.Sequential(nn.Linear(obs_dim, 32), nn.Tanh(), nn.Linear(32, out))
        self.actor, self.critic = net(actions).to(actor_card), net(1).to(critic_card)
        self.cards = (actor_card, critic_card)
        self.optimizer = torch.optim.Adam([*self.actor.parameters(), *self.critic.parameters()], lr=3e-3)

    def policy(self, obs):
        return torch.distributions.Categorical(logits=self.actor(obs.to(self.cards[0])))

    def value(self, obs):
        return self.critic(obs.to(self.cards[1])).squeeze(-1)

    def update(self, rollout, advantage, returns):
        dist = self.policy(rollout.obs)
        ratio = (dist.log_prob(rollout.actions) - rollout.logp).exp()
        actor_loss = -torch.min(ratio * advantage, ratio.clamp(0.8, 1.2) * advantage).mean()
        critic_loss = F.mse_loss(self.value(rollout.obs), returns.to(self.cards[1]))
        self.optimizer.zero_grad()
        (actor_loss + critic_loss.to(self.cards[0])).backward()
        self.optimizer.step()


def collect(env, agent, rollout):
    with torch.no_grad():
        obs = env.state
        for _ in range(rollout.horizon):
            dist = agent.policy(obs)
            action = dist.sample()
            following, reward = env.step(action)
            rollout.add(obs, action, reward, agent.value(obs), dist.log_prob(action))
            obs = following
        return rollout.finish(agent.value(obs))


if __name__ == "__main__":
    torch.manual_seed(0)
    agent, env = Agent(4, 4, "cuda:0", "cuda:1"), PointEnv(6)
    storage = Rollout(8, 6, 4, "cuda:0")
    for iteration in range(3):
        agent.update(storage, *collect(env, agent, storage))
        print(iteration, storage.rewards.mean().item())
