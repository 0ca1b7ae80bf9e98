# cause: extra-input-on-wrong-device
# guilty: g.graph_id
from dataclasses import dataclass, replace
import torch
import torch.nn as nn


@dataclass
class GraphBatch:
    x: torch.Tensor
    senders: torch.Tensor
    receivers: torch.Tensor
    graph_id: torch.Tensor
    y: torch.Tensor

    def to(self, device):
        return replace(
            self,
            x=self.x.to(device),
            senders=self.senders.to(device),
            receivers=self.receivers.to(device),
            y=self.y.to(device),
        )


def random_batch(n_graphs=4, n_nodes=7):
    total = n_graphs * n_nodes
    gid = torch.arange(n_graphs).repeat_interleave(n_nodes)
    off = torch.arange(n_graphs).repeat_interleave(20) * n_nodes
    s = torch.randint(0, n_nodes, (n_graphs * 20,)) + off
    r = torch.randint(0, n_nodes, (n_graphs * 20,)) + off
    return GraphBatch(torch.randn(total, 5), s, r, gid, torch.randn(n_graphs))


class MPNN(nn.Module):
    def __init__(self, d=5, h=24):
        super().__init__()
        self.msg = nn.Linear(2 * d, h)
        self.upd = nn.Linear(d + h, h)
        self.out = nn.Linear(h, 1)

    def forward(self, g):
        m = torch.relu(self.msg(torch.cat([g.x[g.senders], g.x[g.receivers]], -1)))
        agg = m.new_zeros(g.x.size(0), m.size(1)).index_add(0, g.receivers, m)
        h = torch.relu(self.upd(torch.cat([g.x, agg], -1)))
        pooled = h.new_zeros(g.y.size(0), h.size(1)).index_add(0, g.graph_id, h)
        return self.out(pooled).squeeze(-1)


dev = torch.device("cuda:0")
net = MPNN().to(dev)
opt = torch.optim.Adam(net.parameters(), lr=1e-3)
for _ in range(4):
    g = random_batch().to(dev)
    loss = (net(g) - g.y).abs().mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
print(loss.item())
