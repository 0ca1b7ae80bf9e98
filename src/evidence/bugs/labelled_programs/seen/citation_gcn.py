# cause: tensor-created-on-wrong-device
# guilty: out (index is on cuda, out and torch.ones(...) on cpu)
import torch
import torch.nn as nn
import torch.nn.functional as F

device = "cuda:0"
torch.manual_seed(0)


def add_loops(edges, n):
    loop = torch.arange(n, device=edges.device)
    return torch.cat([edges, torch.stack([loop, loop])], dim=1)


def count_per_node(index, n):
    out = torch.zeros(n)
    return out.scatter_add(0, index, torch.ones(index.numel()))


def sym_norm(edges, n):
    deg = count_per_node(edges[1], n).clamp(min=1)
    inv = deg.rsqrt()
    return inv[edges[0]] * inv[edges[1]]


class GCNConv(nn.Module):
    def __init__(self, cin, cout):
        super().__init__()
        self.lin = nn.Linear(cin, cout, bias=False)
        self.bias = nn.Parameter(torch.zeros(cout))

    def forward(self, x, edges):
        n = x.size(0)
        edges = add_loops(edges, n)
        w = sym_norm(edges, n)
        h = self.lin(x)
        msg = h[edges[0]] * w[:, None]
        agg = h.new_zeros(n, h.size(1)).index_add_(0, edges[1], msg)
        return agg + self.bias


class GCN(nn.Module):
    def __init__(self, nf, hid, nc):
        super().__init__()
        self.c1, self.c2 = GCNConv(nf, hid), GCNConv(hid, nc)

    def forward(self, x, edges):
        h = F.dropout(F.relu(self.c1(x, edges)), 0.3, self.training)
        return self.c2(h, edges)


def synth(n=120, nf=16, nc=3, e=500):
    y = torch.randint(0, nc, (n,))
    x = F.one_hot(y, nc).float() @ torch.randn(nc, nf) + 0.5 * torch.randn(n, nf)
    src, dst = torch.randint(0, n, (2, e))
    keep = (y[src] == y[dst]) | (torch.rand(e) < 0.2)
    return x, torch.stack([src[keep], dst[keep]]), y


x, edges, y = [t.to(device) for t in synth()]
train_mask = torch.rand(x.size(0), device=device) < 0.6
model = GCN(x.size(1), 32, 3).to(device)
optim = torch.optim.Adam(model.parameters(), lr=0.02, weight_decay=5e-4)

for epoch in range(5):
    model.train()
    optim.zero_grad()
    logits = model(x, edges)
    loss = F.cross_entropy(logits[train_mask], y[train_mask])
    loss.backward()
    optim.step()
    model.eval()
    with torch.no_grad():
        acc = (model(x, edges).argmax(-1) == y)[~train_mask].float().mean()
    print(f"epoch {epoch}: loss {loss.item():.3f} test acc {acc.item():.3f}")
