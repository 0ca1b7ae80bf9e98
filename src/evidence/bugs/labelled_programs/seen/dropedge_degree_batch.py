# cause: extra-input-on-wrong-device
# guilty: batch.degree (batch.degree.unsqueeze(-1), degree)
# line: 39
# repair: in GraphBatch.to add "degree" to the fields that are moved (or move every tensor in vars(self)) OR in MeanConv.forward use degree.to(x.device)
"""Node classification with random edge removal; a batch object carries the graph."""
import torch
from torch import nn


class GraphBatch:
    fields = ("x", "edges", "y")

    def __init__(self, x, edges, y):
        self.x, self.edges, self.y = x, edges, y
        self.degree = torch.bincount(edges[1], minlength=x.shape[0]).clamp(min=1).float()

    def to(self, device):
        for name in self.fields:
            setattr(self, name, getattr(self, name).to(device))
        return self


class DropEdge:
    def __init__(self, rate):
        self.rate = rate

    def __call__(self, x, edges, y):
        keep = torch.rand(edges.shape[1]) >= self.rate
        return GraphBatch(x, edges[:, keep], y)


class MeanConv(nn.Module):
    def __init__(self, cin, cout):
        super().__init__()
        self.own, self.other = nn.Linear(cin, cout), nn.Linear(cin, cout, bias=False)

    def forward(self, x, batch):
        total = torch.zeros_like(x).index_add_(0, batch.edges[1], x[batch.edges[0]])
        mean = total / batch.degree.unsqueeze(-1)
        return self.own(x) + self.other(mean)


class Net(nn.Module):
    def __init__(self, cin, hidden, classes):
        super().__init__()
        self.first, self.second = MeanConv(cin, hidden), MeanConv(hidden, classes)

    def forward(self, batch):
        return self.second(self.first(batch.x, batch).relu(), batch)


def train(net, transform, graph, device, epochs=3):
    opt = torch.optim.Adam(net.parameters(), lr=0.01)
    for epoch in range(epochs):
        batch = transform(*graph).to(device)
        loss = nn.functional.cross_entropy(net(batch), batch.y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        print(epoch, loss.item())


if __name__ == "__main__":
    torch.manual_seed(0)
    device = torch.device("cuda:0")
    graph = (torch.randn(30, 8), torch.randint(0, 30, (2, 120)), torch.randint(0, 3, (30,)))
    train(Net(8, 16, 3).to(device), DropEdge(0.2), graph, device)
