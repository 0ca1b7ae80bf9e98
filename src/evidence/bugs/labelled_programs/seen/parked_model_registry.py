# cause: weights-moved-away-by-manager|dispatched-model-moved
# guilty: self.norm.weight (self.norm, layer, self)
# line: 20
# repair: in Registry.park keep the device of every parameter and buffer (or of every layer) and in Registry.bring send each back to its own card, e.g. call model.spread() again, instead of moving the whole model to the one recorded device
"""Serves more language models than fit on the cards: the least recently used one is parked on the host."""
from collections import OrderedDict

import torch
import torch.nn as nn


class Layer(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.mix = nn.GRU(dim, dim, batch_first=True)
        self.ff = nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))

    def forward(self, x):
        x = x + self.mix(self.norm(x))[0]
        return x + self.ff(x)


class StagedLM(nn.Module):
    def __init__(self, cards, vocab=80, dim=24, depth=4):
        super().__init__()
        self.cards = [torch.device(cards[i * len(cards) // depth]) for i in range(depth)]
        self.embed = nn.Embedding(vocab, dim)
        self.layers = nn.ModuleList(Layer(dim) for _ in range(depth))
        self.head = nn.Linear(dim, vocab)

    def spread(self):
        self.embed.to(self.cards[0])
        for layer, card in zip(self.layers, self.cards):
            layer.to(card)
        self.head.to(self.cards[-1])
        return self

    def forward(self, ids):
        x = self.embed(ids.to(self.embed.weight.device))
        for layer, card in zip(self.layers, self.cards):
            x = layer(x.to(card))
        return self.head(x[:, -1])


class Registry:
    """Models on the cards, at most `room` of them at a time."""

    def __init__(self, room):
        self.room, self.awake, self.parked, self.builders = room, OrderedDict(), {}, {}

    def register(self, name, builder):
        self.builders[name] = builder

    def park(self, name):
        model = self.awake.pop(name)
        home = next(model.parameters()).device
        self.parked[name] = (model.to("cpu"), home)

    def bring(self, name):
        if name in self.parked:
            model, home = self.parked.pop(name)
            return model.to(home)
        return self.builders[name]().spread().eval()

    def get(self, name):
        if name in self.awake:
            self.awake.move_to_end(name)
            return self.awake[name]
        while len(self.awake) >= self.room:
            self.park(next(iter(self.awake)))
        self.awake[name] = self.bring(name)
        return self.awake[name]


class Service:
    def __init__(self, registry):
        self.registry = registry

    @torch.no_grad()
    def complete(self, name, text, steps=4):
        model = self.registry.get(name)
        ids = torch.tensor([[ord(c) % 80 for c in text]])
        for _ in range(steps):
            ids = torch.cat([ids, model(ids).argmax(-1, keepdim=True).cpu()], dim=1)
        return ids[0, -steps:].tolist()


def main():
    torch.manual_seed(0)
    cards = ["cuda:0", "cuda:1"]
    registry = Registry(room=2)
    registry.register("letters", lambda: StagedLM(cards))
    registry.register("recipes", lambda: StagedLM(cards, depth=6))
    registry.register("small-talk", lambda: StagedLM(cards, depth=2))
    service = Service(registry)
    day = [("letters", "dear sir"), ("recipes", "two eggs"), ("letters", "yours"), ("small-talk", "hello"),
           ("letters", "madam"), ("recipes", "a cup of"), ("small-talk", "nice day")]
    for name, text in day:
        print(name, service.complete(name, text))


if __name__ == "__main__":
    main()
