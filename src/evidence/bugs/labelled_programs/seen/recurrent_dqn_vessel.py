# cause: input-not-on-embedding-device|extra-input-on-wrong-device
# guilty: s_hist (hist or input)
# after: MarWaltz/TUD_RL#21
from collections import deque, namedtuple
import random
import torch
import torch.nn as nn

Step = namedtuple("Step", "s a r s2 done")
HIST, OBS, ACTIONS = 3, 6, 4

class LSTMRecDQN(nn.Module):
    def __init__(self):
        super().__init__()
        self.dense_cur = nn.Linear(OBS, 16)
        self.lstm_hist = nn.LSTM(OBS, 16, batch_first=True)
        self.head = nn.Sequential(nn.Linear(32, 16), nn.ReLU(), nn.Linear(16, ACTIONS))
    def forward(self, s, s_hist):
        cur = torch.relu(self.dense_cur(s))
        _, (h, _) = self.lstm_hist(s_hist)
        return self.head(torch.cat([cur, h[-1]], dim=-1))

class HistoryBuffer:
    def __init__(self, size, device):
        self.rows, self.device = deque(maxlen=size), device
    def add(self, *step):
        self.rows.append(Step(*step))
    def history(self, end):
        steps = [self.rows[i].s for i in range(max(0, end - HIST), end)]
        pad = [torch.zeros(OBS)] * (HIST - len(steps))
        return torch.stack(pad + steps)
    def sample(self, n):
        picks = random.sample(range(len(self.rows)), n)
        batch = [self.rows[i] for i in picks]
        s, s2 = (torch.stack([getattr(b, f) for b in batch]).to(self.device) for f in ("s", "s2"))
        a = torch.tensor([b.a for b in batch], device=self.device)
        r = torch.tensor([b.r for b in batch], device=self.device)
        done = torch.tensor([float(b.done) for b in batch], device=self.device)
        s_hist = torch.stack([self.history(i) for i in picks])
        s2_hist = torch.stack([self.history(i + 1) for i in picks])
        return s, s_hist, a, r, s2, s2_hist, done

class RecDQNAgent:
    def __init__(self, device, gamma=0.99):
        self.device, self.gamma = torch.device(device), gamma
        self.net, self.target = LSTMRecDQN().to(self.device), LSTMRecDQN().to(self.device)
        self.target.load_state_dict(self.net.state_dict())
        self.buffer = HistoryBuffer(200, self.device)
        self.optim = torch.optim.Adam(self.net.parameters())
    def select_action(self, s):
        return random.randrange(ACTIONS)
    def train(self):
        s, s_hist, a, r, s2, s2_hist, done = self.buffer.sample(16)
        with torch.no_grad():
            y = r + self.gamma * (1 - done) * self.target(s2, s2_hist).max(dim=1).values
        q = self.net(s, s_hist).gather(1, a[:, None]).squeeze(1)
        loss = nn.functional.mse_loss(q, y)
        self.optim.zero_grad()
        loss.backward()
        self.optim.step()
        return loss.item()

if __name__ == "__main__":
    random.seed(0)
    torch.manual_seed(0)
    agent, s = RecDQNAgent("cuda"), torch.randn(OBS)
    for t in range(40):
        s2 = 0.9 * s + 0.1 * torch.randn(OBS)
        agent.buffer.add(s, agent.select_action(s), float(s2.sum()), s2, t % 10 == 9)
        s = s2
    print(agent.train())
