# cause: module-left-on-other-device
# guilty: q_out (self.q_outs or q_out.weight or self.weight)
# after: marlbenchmark/off-policy#12
import torch
from torch import nn

def init_(m):
    nn.init.orthogonal_(m.weight, 1.0)
    nn.init.zeros_(m.bias)
    return m

class MLPBase(nn.Module):
    def __init__(self, dim, hidden):
        super().__init__()
        self.feature_norm = nn.LayerNorm(dim)
        self.fc = nn.ModuleList([nn.Linear(dim, hidden), nn.Linear(hidden, hidden)])

    def forward(self, x):
        x = self.feature_norm(x)
        for layer in self.fc:
            x = torch.relu(layer(x))
        return x

class MADDPG_Critic(nn.Module):
    def __init__(self, obs_dim, act_dim, hidden, device, num_q_outs=1):
        super().__init__()
        self.tpdv = dict(dtype=torch.float32, device=device)
        self.mlp = MLPBase(obs_dim + act_dim, hidden)
        self.q_outs = [init_(nn.Linear(hidden, 1)) for _ in range(num_q_outs)]
        self.to(device)

    def forward(self, central_obs, central_act):
        x = torch.cat([central_obs.to(**self.tpdv), central_act.to(**self.tpdv)], dim=1)
        x = self.mlp(x)
        return [q_out(x) for q_out in self.q_outs]

class MATD3_Critic(MADDPG_Critic):
    def __init__(self, obs_dim, act_dim, hidden, device):
        super().__init__(obs_dim, act_dim, hidden, device, num_q_outs=2)

class Policy:
    def __init__(self, device, lr=7e-4):
        self.device = device
        self.critic = MATD3_Critic(18, 5, 32, device)
        self.critic_optimizer = torch.optim.Adam(self.critic.parameters(), lr=lr)

    def train_on_batch(self, obs, act, returns):
        returns = returns.to(self.device)
        qs = self.critic(obs, act)
        loss = sum((returns - q).pow(2).mean() for q in qs)
        self.critic_optimizer.zero_grad()
        loss.backward()
        self.critic_optimizer.step()
        return loss.detach()

if __name__ == "__main__":
    policy = Policy(torch.device("cuda:0"))
    for _ in range(4):
        print(policy.train_on_batch(torch.randn(32, 18), torch.rand(32, 5), torch.randn(32, 1)))
