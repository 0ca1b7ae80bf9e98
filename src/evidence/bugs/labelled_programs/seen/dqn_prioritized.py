# cause: tensor-created-on-wrong-device
# guilty: idx
import torch
import torch.nn as nn


class Replay:
    def __init__(self, cap, obs):
        self.obs = torch.zeros(cap, obs)
        self.nxt = torch.zeros(cap, obs)
        self.act = torch.zeros(cap, dtype=torch.long)
        self.rew = torch.zeros(cap)
        self.size, self.cap = 0, cap

    def push(self, o, a, r, n):
        i = self.size % self.cap
        self.obs[i], self.act[i], self.rew[i], self.nxt[i] = o, a, r, n
        self.size += 1

    def sample(self, idx, device):
        rows = (self.obs[idx], self.act[idx], self.rew[idx], self.nxt[idx])
        return [r.to(device) for r in rows]


device = torch.device("cuda:0")
q = nn.Sequential(nn.Linear(4, 64), nn.ReLU(), nn.Linear(64, 2)).to(device)
target = nn.Sequential(nn.Linear(4, 64), nn.ReLU(), nn.Linear(64, 2)).to(device)
target.load_state_dict(q.state_dict())
opt = torch.optim.Adam(q.parameters(), 1e-3)
memory = Replay(256, 4)
priority = torch.full((256,), 1e-2, device=device)

for t in range(256):
    o = torch.randn(4)
    memory.push(o, torch.randint(0, 2, ()), o.sum(), o + 0.1 * torch.randn(4))

for step in range(5):
    idx = torch.multinomial(priority, 32)
    o, a, r, n = memory.sample(idx, device)
    with torch.no_grad():
        y = r + 0.97 * target(n).max(1).values
    td = q(o).gather(1, a[:, None]).squeeze(1) - y
    loss = td.pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    priority[idx] = td.detach().abs() + 1e-3
print(loss.item())
