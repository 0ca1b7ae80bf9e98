# cause: offload-hook-bypassed
# guilty: table (self.model.embed.weight, embed.weight)
# line: 63
# repair: in CatalogScorer.score read the items through the hooked module: table = self.model.embed(torch.arange(n, device=user.device)) in place of self.model.embed.weight OR do the scoring in a module method that runs inside forward OR exclude embed from cpu_offload and keep it on cuda:0
"""Sequential recommender served from a small card: the weights stay on the host between calls."""
import torch
import torch.nn as nn
from accelerate import cpu_offload


class MixBlock(nn.Module):
    """Causal mean over the history, gated, followed by a small MLP."""

    def __init__(self, dim):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.gate, self.value = nn.Linear(dim, dim), nn.Linear(dim, dim)
        self.up, self.down = nn.Linear(dim, dim * 2), nn.Linear(dim * 2, dim)

    def forward(self, x):
        y = self.norm(x)
        steps = torch.arange(1, x.shape[1] + 1, device=x.device).view(1, -1, 1)
        x = x + self.gate(y).sigmoid() * (self.value(y).cumsum(1) / steps)
        return x + self.down(self.up(x).relu())


class UserModel(nn.Module):
    def __init__(self, items, dim, depth=2, max_len=20):
        super().__init__()
        self.embed = nn.Embedding(items, dim, padding_idx=0)
        self.place = nn.Embedding(max_len, dim)
        self.encoder = nn.ModuleList(MixBlock(dim) for _ in range(depth))
        self.norm = nn.LayerNorm(dim)

    def forward(self, history):
        positions = torch.arange(history.shape[1], device=history.device)
        x = self.embed(history) + self.place(positions)
        for layer in self.encoder:
            x = layer(x)
        return self.norm(x)[:, -1]


class ServingConfig:
    def __init__(self, card="cuda:0", low_memory=True, top=5):
        self.card, self.low_memory, self.top = card, low_memory, top


def prepare(model, config):
    model.train(False)
    if config.low_memory:
        return cpu_offload(model, execution_device=torch.device(config.card))
    return model.to(config.card)


class CatalogScorer:
    def __init__(self, model, config):
        self.model, self.config = model, config

    @torch.no_grad()
    def score(self, history):
        user = self.model(history.to(self.config.card))
        table = self.model.embed.weight
        return (user[:, None] * table).sum(-1)

    def recommend(self, history):
        scores = self.score(history)
        scores[:, 0] = float("-inf")
        scores.scatter_(1, history.to(scores.device), float("-inf"))
        return scores.topk(self.config.top, dim=-1).indices.tolist()


def toy_histories(n, length=8, items=60):
    g = torch.Generator().manual_seed(5)
    return torch.randint(1, items, (n, length), generator=g)


if __name__ == "__main__":
    torch.manual_seed(0)
    config = ServingConfig()
    scorer = CatalogScorer(prepare(UserModel(60, 32), config), config)
    for row in scorer.recommend(toy_histories(3)):
        print(row)
