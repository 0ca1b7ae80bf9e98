# cause: adapter-weights-on-other-device|checkpoint-map-location
# guilty: self.delta(pair) (pair["up"], pair["down"], pair)
# line: 76
# repair: in Merger.merge move the update to the weight it is added to, self.delta(pair).to(weight.device), OR load the file with map_location="cpu" and move layer by layer; one map_location for all layers does not fit a model on two cards
"""Merges a finished low-rank adapter into the base model, which is spread over the cards, and exports it."""
import tempfile
from pathlib import Path

import torch
import torch.nn as nn


class DecoderLayer(nn.Module):
    def __init__(self, dim, heads=4):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.q_proj, self.k_proj = nn.Linear(dim, dim), nn.Linear(dim, dim)
        self.v_proj, self.o_proj = nn.Linear(dim, dim), nn.Linear(dim, dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))

    def forward(self, x):
        b, t, d = x.shape
        h = self.norm1(x)
        q, k, v = (p(h).view(b, t, self.heads, -1).transpose(1, 2) for p in (self.q_proj, self.k_proj, self.v_proj))
        a = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.o_proj(a.transpose(1, 2).reshape(b, t, d))
        return x + self.mlp(self.norm2(x))


class ChatModel(nn.Module):
    def __init__(self, cards, vocab=150, dim=32, depth=4):
        super().__init__()
        self.cards = [cards[i * len(cards) // depth] for i in range(depth)]
        self.embed = nn.Embedding(vocab, dim).to(cards[0])
        self.layers = nn.ModuleList(DecoderLayer(dim).to(c) for c in self.cards)
        self.head = nn.Linear(dim, vocab).to(cards[-1])

    @property
    def device(self):
        return self.embed.weight.device

    def forward(self, ids):
        x = self.embed(ids.to(self.device))
        for layer, card in zip(self.layers, self.cards):
            x = layer(x.to(card))
        return self.head(x)


def write_adapter(path, depth, dim=32, rank=4, targets=("q_proj", "v_proj")):
    state = {}
    for i in range(depth):
        for target in targets:
            state[f"layers.{i}.{target}.down"] = torch.randn(rank, dim) * 0.05
            state[f"layers.{i}.{target}.up"] = torch.randn(dim, rank) * 0.05
    torch.save({"alpha": 8, "rank": rank, "state": state}, path)


class Merger:
    def __init__(self, model, path):
        self.model = model
        file = torch.load(path, map_location=model.device)
        self.scale = file["alpha"] / file["rank"]
        self.pairs = {}
        for key, value in file["state"].items():
            module, side = key.rsplit(".", 1)
            self.pairs.setdefault(module, {})[side] = value

    def delta(self, pair):
        return self.scale * (pair["up"] @ pair["down"])

    @torch.no_grad()
    def merge(self, ratio=1.0):
        for name, pair in sorted(self.pairs.items()):
            weight = self.model.get_submodule(name).weight
            weight.add_(self.delta(pair), alpha=ratio)
        return len(self.pairs)


@torch.inference_mode()
def loss_of(model, ids):
    logits = model(ids)[:, :-1]
    return nn.functional.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten().to(logits.device)).item()


def main():
    torch.manual_seed(0)
    ids = torch.randint(0, 150, (2, 12))
    with tempfile.TemporaryDirectory() as folder:
        adapter = Path(folder) / "adapter.pt"
        write_adapter(adapter, depth=4)
        model = ChatModel(["cuda:0", "cuda:1"]).eval()
        before = loss_of(model, ids)
        merged = Merger(model, adapter).merge(ratio=0.8)
        print("merged", merged, "loss", round(before, 3), "->", round(loss_of(model, ids), 3))
        torch.save({k: v.cpu() for k, v in model.state_dict().items()}, Path(folder) / "merged.pt")


if __name__ == "__main__":
    main()
