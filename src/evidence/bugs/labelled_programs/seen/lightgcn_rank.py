# cause: numpy-of-gpu-tensor
# guilty: final
import numpy as np
import torch
import torch.nn as nn


class LightGCN(nn.Module):
    def __init__(self, n_user, n_item, adj, dim=16, layers=2):
        super().__init__()
        self.user = nn.Embedding(n_user, dim)
        self.item = nn.Embedding(n_item, dim)
        self.layers = layers
        self.register_buffer("adj", adj)

    def propagate(self):
        e = torch.cat([self.user.weight, self.item.weight])
        outs = [e]
        for _ in range(self.layers):
            e = self.adj @ e
            outs.append(e)
        return outs


rng = np.random.default_rng(0)
U, I = 30, 50
inter = (rng.random((U, I)) < 0.1).astype(np.float32)
full = np.zeros((U + I, U + I), dtype=np.float32)
full[:U, U:] = inter
full[U:, :U] = inter.T
deg = np.maximum(full.sum(1), 1)
adj = torch.from_numpy(full / np.sqrt(deg[:, None] * deg[None]))

device = "cuda:0"
model = LightGCN(U, I, adj).to(device)
opt = torch.optim.Adam(model.parameters(), lr=0.01)
label = torch.from_numpy(inter).to(device)
for epoch in range(3):
    emb = torch.stack(model.propagate()).mean(0)
    loss = nn.functional.binary_cross_entropy_with_logits(emb[:U] @ emb[U:].T, label)
    opt.zero_grad()
    loss.backward()
    opt.step()

final = [e.detach() for e in model.propagate()]
emb = np.sum(np.stack(final), axis=0) / len(final)
scores = emb[:U] @ emb[U:].T
scores[inter > 0] = -np.inf
print(np.argsort(-scores, axis=1)[:3, :5])
