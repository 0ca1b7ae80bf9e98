# cause: module-left-on-other-device
# guilty: weight (0.weight or self.target.0.weight or self.target)
# after: vwxyzjn/cleanrl#102
import copy

import torch
from torch import nn


class Agent:
    def __init__(self, net):
        self.net = net
        self.target = copy.deepcopy(net)
        self.optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)

    def to(self, device):
        self.net.to(device)
        return self

    def learn(self, batch):
        seen, action, reward, after = batch
        with torch.no_grad():
            best = reward + 0.9 * self.target(after).max(-1).values
        value = self.net(seen).gather(1, action[:, None])[:, 0]
        loss = nn.functional.smooth_l1_loss(value, best)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()


device = torch.device("cuda:0")
agent = Agent(nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 2))).to(device)
for _ in range(2):
    seen, after = torch.randn(2, 8, 4, device=device)
    action = torch.randint(0, 2, (8,), device=device)
    agent.learn((seen, action, torch.ones(8, device=device), after))
