# cause: dispatched-model-moved
# guilty: model (self.model)
# line: 64
# repair: in Scorer.__init__ leave a dispatched model where it is (skip .to when it has hf_device_map) OR give the map no "cpu" entry and load it straight to one device
"""Scores sentences with a model that is spread over two cards and the host."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F
from accelerate import dispatch_model


class Block(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.mix = nn.GRU(dim, dim, batch_first=True)

    def forward(self, x):
        return x + self.mix(self.norm(x))[0]


class LanguageModel(nn.Module):
    def __init__(self, vocab=64, dim=32, depth=4):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.blocks = nn.ModuleList(Block(dim) for _ in range(depth))
        self.norm = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, vocab)

    def forward(self, ids):
        x = self.embed(ids)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


class Placement:
    """Fills the cards in order; what is left stays on the host."""

    def __init__(self, room):
        self.room = room

    def plan(self, model):
        units = ["embed", *(f"blocks.{i}" for i in range(len(model.blocks))), "norm", "head"]
        plan, place = {}, iter(self.room.items())
        device, left = next(place)
        for unit in units:
            while left == 0:
                device, left = next(place)
            plan[unit] = device
            left -= 1
        return plan

    def apply(self, model):
        return dispatch_model(model, device_map=self.plan(model))


class Scorer:
    def __init__(self, model, device="cuda:0", batch=4):
        self.device = torch.device(device)
        self.batch = batch
        self.model = model.to(self.device)
        self.model.eval()

    def _pad(self, rows):
        longest = max(len(r) for r in rows)
        ids = torch.zeros(len(rows), longest, dtype=torch.long)
        for i, row in enumerate(rows):
            ids[i, : len(row)] = torch.tensor(row)
        return ids.to(self.device)

    @torch.no_grad()
    def perplexity(self, sentences):
        out = []
        for start in range(0, len(sentences), self.batch):
            rows = [[ord(c) % 64 for c in s] for s in sentences[start:start + self.batch]]
            ids = self._pad(rows)
            logp = F.log_softmax(self.model(ids)[:, :-1], dim=-1)
            picked = logp.gather(-1, ids[:, 1:, None].to(logp.device))[..., 0]
            for i, row in enumerate(rows):
                out.append(math.exp(-picked[i, : len(row) - 1].mean().item()))
        return out


if __name__ == "__main__":
    torch.manual_seed(0)
    model = Placement({0: 3, 1: 2, "cpu": 99}).apply(LanguageModel())
    scorer = Scorer(model)
    for value in scorer.perplexity(["the tide is out", "a cold wind", "rain again"]):
        print(round(value, 2))
