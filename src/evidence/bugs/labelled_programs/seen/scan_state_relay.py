# cause: cache-or-beam-state-on-wrong-device
# guilty: state (cache.ssm[self.index], cache.ssm)
# line: 26
# repair: in ScanCache.__init__ allocate each layer's state on that layer's card (device=layer.log_a.device per layer) instead of the card of the embedding
"""Step-by-step decoding of a selective scan model whose layers sit on two cards."""
import torch
from torch import nn


class ScanLayer(nn.Module):
    def __init__(self, dim, n_state, index):
        super().__init__()
        self.index = index
        self.norm = nn.LayerNorm(dim)
        self.log_a = nn.Parameter(torch.randn(dim, n_state) * 0.1)
        self.bc = nn.Linear(dim, 2 * n_state)
        self.dt = nn.Linear(dim, dim)
        self.out = nn.Linear(dim, dim)

    def forward(self, x, cache):
        u = self.norm(x)
        dt = nn.functional.softplus(self.dt(u)).unsqueeze(-1)
        b, c = self.bc(u).chunk(2, dim=-1)
        state = cache.ssm[self.index]
        decay = torch.exp(-dt * self.log_a.exp())
        state = state * decay + dt * b.unsqueeze(1) * u.unsqueeze(-1)
        cache.ssm[self.index] = state
        return x + self.out((state * c.unsqueeze(1)).sum(-1))


class ScanCache:
    def __init__(self, model, batch):
        device = model.embed.weight.device
        dim = model.embed.embedding_dim
        self.ssm = [torch.zeros(batch, dim, model.n_state, device=device) for _ in model.layers]


class ScanLM(nn.Module):
    def __init__(self, vocab=64, dim=24, depth=4, n_state=4):
        super().__init__()
        self.n_state = n_state
        self.embed = nn.Embedding(vocab, dim)
        self.layers = nn.ModuleList([ScanLayer(dim, n_state, i) for i in range(depth)])
        self.head = nn.Linear(dim, vocab)

    def spread(self, cards):
        self.embed.to(cards[0])
        per = -(-len(self.layers) // len(cards))
        for i, layer in enumerate(self.layers):
            layer.to(cards[i // per])
        self.head.to(cards[-1])
        return self

    def forward(self, ids, cache):
        x = self.embed(ids.to(self.embed.weight.device))
        for layer in self.layers:
            x = layer(x.to(layer.log_a.device), cache)
        return self.head(x.to(self.head.weight.device))


@torch.no_grad()
def decode(model, first, steps):
    cache = ScanCache(model, first.shape[0])
    ids, out = first, [first.cpu()]
    for _ in range(steps):
        ids = model(ids, cache).argmax(-1)
        out.append(ids.cpu())
    return torch.stack(out, dim=1)


if __name__ == "__main__":
    lm = ScanLM().spread(["cuda:0", "cuda:1"]).eval()
    print(decode(lm, torch.tensor([1, 2, 3]), steps=6))
