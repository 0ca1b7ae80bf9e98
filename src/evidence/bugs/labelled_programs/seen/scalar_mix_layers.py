# cause: embedding-streams-on-different-devices|block-split-across-devices
# guilty: store (captured, the outputs of the first blocks)
# line: 71
# repair: in the hook of LayerRecorder keep the output on one device: self.store.append(output.to(self.device)) with self.device = "cuda:1" OR in probe_features: torch.stack([h.to(mixer.weights.device) for h in store])
import torch
import torch.nn as nn
import torch.nn.functional as F

DEV0, DEV1 = "cuda:0", "cuda:1"


class Block(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.attn = nn.MultiheadAttention(dim, heads, batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(dim, dim * 2), nn.GELU(), nn.Linear(dim * 2, dim))

    def forward(self, x):
        y = self.n1(x)
        x = x + self.attn(y, y, y, need_weights=False)[0]
        return x + self.mlp(self.n2(x))


class ProteinEncoder(nn.Module):
    def __init__(self, vocab=25, dim=32, depth=6):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim).to(DEV0)
        self.lower = nn.ModuleList(Block(dim, 4) for _ in range(depth // 2)).to(DEV0)
        self.upper = nn.ModuleList(Block(dim, 4) for _ in range(depth - depth // 2)).to(DEV1)

    def forward(self, ids):
        x = self.embed(ids)
        for block in self.lower:
            x = block(x)
        x = x.to(DEV1)
        for block in self.upper:
            x = block(x)
        return x


class LayerRecorder:
    def __init__(self, model):
        self.store = []
        blocks = list(model.lower) + list(model.upper)
        self.handles = [b.register_forward_hook(self._keep) for b in blocks]

    def _keep(self, module, args, output):
        self.store.append(output)

    def take(self):
        kept, self.store = self.store, []
        return kept


class ScalarMix(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.weights = nn.Parameter(torch.zeros(n))
        self.gamma = nn.Parameter(torch.ones(1))

    def forward(self, stacked):
        w = self.weights.softmax(0).view(-1, 1, 1, 1)
        return self.gamma * (w * stacked).sum(0)


def probe_features(encoder, recorder, mixer, ids):
    with torch.no_grad():
        encoder(ids)
    store = recorder.take()
    stacked = torch.stack(store)
    return mixer(stacked).mean(1)


torch.manual_seed(0)
encoder = ProteinEncoder().eval()
recorder = LayerRecorder(encoder)
mixer = ScalarMix(6).to(DEV1)
probe = nn.Linear(32, 3).to(DEV1)
opt = torch.optim.Adam([*mixer.parameters(), *probe.parameters()], lr=1e-2)
for step in range(4):
    ids = torch.randint(0, 25, (8, 20), device=DEV0)
    fold = torch.randint(0, 3, (8,), device=DEV1)
    loss = F.cross_entropy(probe(probe_features(encoder, recorder, mixer, ids)), fold)
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(step, loss.item())
