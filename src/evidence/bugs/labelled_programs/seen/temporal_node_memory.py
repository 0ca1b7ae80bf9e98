# cause: cache-or-beam-state-on-wrong-device|tensor-created-on-wrong-device
# guilty: seen (self.last_seen)
# line: 34
# repair: register last_seen as a buffer in NodeMemory.reset/__init__ as state is (register_buffer("last_seen", ...)), so that .to() moves it (and drop the .cpu() of the indices) OR move seen to t.device in message
"""Temporal graph network: memory of nodes is updated by time-stamped interactions."""
import torch
import torch.nn as nn


class TimeEncoder(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.lin = nn.Linear(1, dim)

    def forward(self, dt):
        return torch.cos(self.lin(dt.unsqueeze(-1)))


class NodeMemory(nn.Module):
    def __init__(self, n_nodes, dim, time_dim, msg_dim):
        super().__init__()
        self.n_nodes, self.dim = n_nodes, dim
        self.time = TimeEncoder(time_dim)
        self.cell = nn.GRUCell(2 * dim + time_dim + msg_dim, dim)
        self.register_buffer("state", torch.zeros(n_nodes, dim))
        self.reset()

    def reset(self):
        self.state.zero_()
        self.last_seen = torch.zeros(self.n_nodes)

    def message(self, nodes, others, t, msg):
        seen = self.last_seen[nodes.cpu()]
        gap = t - seen
        return torch.cat([self.state[nodes], self.state[others], self.time(gap), msg], -1)

    def update(self, nodes, others, t, msg):
        new = self.cell(self.message(nodes, others, t, msg), self.state[nodes])
        self.state = self.state.index_copy(0, nodes, new.detach())
        self.last_seen[nodes.cpu()] = t.to(self.last_seen.device)
        return new


class LinkScorer(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(2 * dim, dim), nn.ReLU(), nn.Linear(dim, 1))

    def forward(self, a, b):
        return self.net(torch.cat([a, b], -1)).squeeze(-1)


class TemporalModel:
    def __init__(self, n_nodes, memory_device, scorer_device):
        self.memory = NodeMemory(n_nodes, 16, 8, 4).to(memory_device)
        self.scorer = LinkScorer(16).to(scorer_device)
        self.devices = memory_device, scorer_device

    def loss(self, src, dst, t, msg):
        m, s = self.devices
        src, dst, t, msg = (v.to(m) for v in (src, dst, t, msg))
        a = self.memory.update(src, dst, t, msg).to(s)
        b = self.memory.state[dst].to(s)
        pos, neg = self.scorer(a, b), self.scorer(a, b.roll(1, 0))
        return nn.functional.softplus(torch.cat([-pos, neg])).mean()


if __name__ == "__main__":
    torch.manual_seed(0)
    model = TemporalModel(40, "cuda:1", "cuda:0")
    params = list(model.memory.parameters()) + list(model.scorer.parameters())
    opt = torch.optim.Adam(params, lr=1e-3)
    for step in range(4):
        nodes = torch.randperm(40)
        loss = model.loss(nodes[:8], nodes[8:16], torch.full((8,), float(step)), torch.randn(8, 4))
        opt.zero_grad()
        loss.backward()
        opt.step()
        print(step, round(loss.item(), 4))
