# cause: input-not-on-embedding-device
# guilty: obs (x or input or inputs)
# after: ikostrikov/pytorch-a2c-ppo-acktr-gail#118
import torch
from torch import nn
from torch.distributions import Categorical
class VecEnv:
    def __init__(self, n, dim):
        self.n, self.dim, self.t = n, dim, 0
    def reset(self):
        self.t = 0
        return torch.randn(self.n, self.dim)
    def step(self, actions):
        self.t += 1
        done = torch.full((self.n,), float(self.t >= 6))
        return torch.randn(self.n, self.dim), torch.rand(self.n, 1), done
class VecTorch:
    def __init__(self, venv, device):
        self.venv, self.device = venv, device
    def reset(self):
        return self.venv.reset().to(self.device)
    def step(self, actions):
        obs, reward, done = self.venv.step(actions.cpu())
        return obs.to(self.device), reward, done
class MLPBase(nn.Module):
    def __init__(self, dim, hidden=32):
        super().__init__()
        self.actor = nn.Sequential(nn.Linear(dim, hidden), nn.Tanh())
        self.critic = nn.Sequential(nn.Linear(dim, hidden), nn.Tanh(), nn.Linear(hidden, 1))
    def forward(self, inputs, rnn_hxs, masks):
        return self.critic(inputs), self.actor(inputs), rnn_hxs * masks
class Policy(nn.Module):
    def __init__(self, dim, actions):
        super().__init__()
        self.base, self.dist = MLPBase(dim), nn.Linear(32, actions)
    def act(self, obs, rnn_hxs, masks, deterministic=False):
        value, feat, rnn_hxs = self.base(obs, rnn_hxs, masks)
        dist = Categorical(logits=self.dist(feat))
        action = dist.probs.argmax(-1) if deterministic else dist.sample()
        return value, action, dist.log_prob(action), rnn_hxs
def collect(policy, envs, steps, device):
    obs, masks, hxs = envs.reset(), torch.ones(4, 1, device=device), torch.zeros(4, 1, device=device)
    values, rewards = [], []
    for _ in range(steps):
        value, action, logp, hxs = policy.act(obs, hxs, masks)
        obs, reward, done = envs.step(action)
        values.append(value)
        rewards.append(reward.to(device))
    return (torch.stack(rewards) - torch.stack(values)).pow(2).mean()
def evaluate(policy, eval_envs, device):
    rewards, done = [], torch.zeros(4)
    obs = eval_envs.reset()
    hxs, masks = torch.zeros(4, 1, device=device), torch.zeros(4, 1, device=device)
    while not done.all():
        with torch.no_grad():
            _, action, _, hxs = policy.act(obs, hxs, masks, deterministic=True)
        obs, reward, done = eval_envs.step(action.cpu())
        masks = (1 - done).unsqueeze(1).to(device)
        rewards.append(reward.mean())
    return torch.stack(rewards).sum()
if __name__ == "__main__":
    device = torch.device("cuda:0")
    policy = Policy(8, 3).to(device)
    opt = torch.optim.RMSprop(policy.parameters())
    for update in range(4):
        loss = collect(policy, VecTorch(VecEnv(4, 8), device), 5, device)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if update % 2 == 1:
            print(update, evaluate(policy, VecEnv(4, 8), device))
