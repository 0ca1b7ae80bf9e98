# cause: cache-or-beam-state-on-wrong-device
import torch
from torch import nn


class Layer(nn.Module):
    def __init__(self, d=8):
        super().__init__()
        self.q, self.kv, self.o = nn.Linear(d, d), nn.Linear(d, 2 * d), nn.Linear(d, d)

    def forward(self, x, memory):
        k, v = self.kv(x).chunk(2, -1)
        if memory is not None:
            k = torch.cat([memory[0], k], 1)
            v = torch.cat([memory[1], v], 1)
        att = (self.q(x) @ k.transpose(1, 2)).softmax(-1)
        return x + self.o(att @ v), (k.cpu(), v.cpu())


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(20, 8)
        self.layers = nn.ModuleList(Layer() for _ in range(2))
        self.head = nn.Linear(8, 20)

    def forward(self, ids, memories):
        h, new = self.emb(ids), []
        for layer, m in zip(self.layers, memories):
            h, kept = layer(h, m)
            new.append(kept)
        return self.head(h), new


device = torch.device("cuda:0")
net = Model().to(device).eval()
ids, memories = torch.tensor([[3]], device=device), [None, None]
with torch.no_grad():
    for _ in range(3):
        logits, memories = net(ids, memories)
        ids = logits[:, -1:].argmax(-1)
