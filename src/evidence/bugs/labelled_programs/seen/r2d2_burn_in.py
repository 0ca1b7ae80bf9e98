# cause: cache-or-beam-state-on-wrong-device
# guilty: h0
import random

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(7)
random.seed(7)


class QNet(nn.Module):
    def __init__(self, obs=4, hid=12, acts=3):
        super().__init__()
        self.gru = nn.GRU(obs, hid, batch_first=True)
        self.q = nn.Linear(hid, acts)

    def forward(self, obs, h0):
        seq, h = self.gru(obs, h0)
        return self.q(seq), h


class Replay:
    def __init__(self):
        self.rows = []

    def add(self, obs, act, rew, h):
        self.rows.append((obs.cpu(), act.cpu(), rew.cpu(), h.cpu()))

    def sample(self, n, device):
        obs, act, rew, h = zip(*random.sample(self.rows, n))
        return (torch.stack(obs).to(device), torch.stack(act).to(device),
                torch.stack(rew).to(device), torch.cat(h, dim=1))


device = "cuda:0"
net, replay = QNet().to(device), Replay()
opt = torch.optim.Adam(net.parameters(), lr=1e-3)

h = torch.zeros(1, 1, 12, device=device)
for episode in range(8):
    obs = torch.randn(6, 4, device=device)
    before = h
    with torch.no_grad():
        q, h = net(obs.unsqueeze(0), h)
    replay.add(obs, q[0].argmax(-1), obs[:, 0], before)

for update in range(3):
    obs, act, rew, h = replay.sample(4, device)
    q, _ = net(obs, h)
    taken = q.gather(2, act.unsqueeze(-1)).squeeze(-1)
    goal = rew[:, :-1] + 0.9 * q[:, 1:].detach().max(-1).values
    loss = F.smooth_l1_loss(taken[:, :-1], goal)
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(update, loss.item())
