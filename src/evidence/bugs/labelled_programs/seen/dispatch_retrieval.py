# cause: offload-hook-bypassed
# guilty: self.items.weight
"""Nearest-item retrieval; accelerate keeps the large item table out of GPU memory."""
import torch
from accelerate import dispatch_model
from torch import nn


class QueryEncoder(nn.Module):
    def __init__(self, words, dim):
        super().__init__()
        self.words = nn.EmbeddingBag(words, dim)
        self.proj = nn.Sequential(nn.Linear(dim, dim), nn.Tanh(), nn.Linear(dim, dim))

    def forward(self, tokens):
        return self.proj(self.words(tokens))


class Retriever(nn.Module):
    def __init__(self, words=80, items=500, dim=16):
        super().__init__()
        self.query = QueryEncoder(words, dim)
        self.items = nn.Embedding(items, dim)
        self.rescale = nn.Linear(1, 1)

    def forward(self, tokens):
        q = self.query(tokens)
        gap = q.unsqueeze(1) - self.items.weight
        distance = gap.pow(2).sum(-1, keepdim=True)
        return -self.rescale(distance).squeeze(-1)

    def describe(self, ids):
        return self.items(ids)


def load(device_map):
    torch.manual_seed(0)
    model = Retriever().eval()
    return dispatch_model(model, device_map=device_map)


def top(model, tokens, k=3):
    with torch.no_grad():
        scores = model(tokens)
    return scores.topk(k, dim=-1).indices


def main():
    model = load({"query": "cuda:0", "items": "cpu", "rescale": "cuda:0"})
    with torch.no_grad():
        print("item 7:", model.describe(torch.tensor([7])).norm().item())
    for batch in range(2):
        tokens = torch.randint(80, (4, 6))
        print(batch, top(model, tokens).tolist())


if __name__ == "__main__":
    main()
