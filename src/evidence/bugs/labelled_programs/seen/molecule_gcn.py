# cause: extra-input-on-wrong-device|input-not-on-embedding-device
# guilty: dst (edge_index or data["edge_index"])
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(1)
N, E, C = 60, 200, 4
data = {
    "x": torch.randn(N, 9),
    "edge_index": torch.randint(0, N, (2, E)),
    "batch": torch.arange(N) // 6,
    "y": torch.randint(0, C, (10,)),
}


class Conv(nn.Module):
    def __init__(self, i, o):
        super().__init__()
        self.lin = nn.Linear(i, o)

    def forward(self, x, edge_index):
        src, dst = edge_index
        h = self.lin(x)
        msg = h[src]
        return torch.zeros_like(h).index_add(0, dst, msg) + h


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = Conv(9, 16)
        self.conv2 = Conv(16, C)

    def forward(self, x, edge_index, batch, n_graphs):
        x, edge_index = x, data["edge_index"]
        x = F.relu(self.conv1(x, edge_index))
        x = F.dropout(x, 0.2, training=self.training)
        x = self.conv2(x, edge_index)
        pooled = x.new_zeros(n_graphs, C).index_add(0, batch, x)
        return F.log_softmax(pooled, dim=1)


device = "cuda:0"
net = Net().to(device)
opt = torch.optim.Adam(net.parameters(), lr=0.01)
x, ei = data["x"].to(device), data["edge_index"].to(device)
batch, y = data["batch"].to(device), data["y"].to(device)
for epoch in range(5):
    opt.zero_grad()
    loss = F.nll_loss(net(x, ei, batch, 10), y)
    loss.backward()
    opt.step()
print(loss.item())
