# cause: extra-input-on-wrong-device
# guilty: dst (edges)
import torch
import torch.nn as nn

gpu = torch.device("cuda:0")


class GCNLayer(nn.Module):
    def __init__(self, fin, fout):
        super().__init__()
        self.lin = nn.Linear(fin, fout, bias=False)

    def forward(self, x, edge_index):
        src, dst = edge_index
        deg = torch.zeros(x.size(0), device=x.device)
        deg.index_add_(0, dst, torch.ones(dst.numel(), device=x.device))
        h = self.lin(x)
        out = torch.zeros_like(h).index_add(0, dst, h[src])
        return out / deg.clamp(min=1).unsqueeze(1)


class GCN(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = GCNLayer(32, 16), GCNLayer(16, 5)

    def forward(self, x, edges):
        return self.b(torch.relu(self.a(x, edges)), edges)


n = 200
feats = torch.randn(n, 32)
labels = torch.randint(0, 5, (n,))
edges = torch.randint(0, n, (2, 900))
train_ids = torch.randperm(n)[:60]

gcn = GCN()
gcn.to(gpu)
feats = feats.to(gpu)
labels = labels.to(gpu)
edges.to(gpu)

optimizer = torch.optim.Adam(gcn.parameters(), lr=0.01, weight_decay=5e-4)
for epoch in range(10):
    optimizer.zero_grad()
    logits = gcn(feats, edges)
    loss = nn.functional.cross_entropy(logits[train_ids], labels[train_ids])
    loss.backward()
    optimizer.step()
print(f"final {loss.item():.4f}")
