# cause: weights-moved-away-by-manager
# guilty: self.embed (self.embed.weight, the encoder's weights)
# line: 19
# repair: lease the encoder again before each use (encoder = self.pool.lease("encoder") in Assistant.answer) instead of keeping the handle from the constructor, as lease of another model parks it on the host OR give the pool room for two models on that card
"""Several models share two cards; a pool parks on the host what was not used for longest."""
from collections import OrderedDict

import torch
from torch import nn


class PhraseEncoder(nn.Module):
    def __init__(self, vocab=100, width=16):
        super().__init__()
        self.embed = nn.Embedding(vocab, width)
        self.mix = nn.Linear(width, width)

    def forward(self, ids):
        x = self.embed(ids)
        return nn.functional.normalize(self.mix(x).mean(1), dim=-1)


class Reranker(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(2 * width, width), nn.ReLU(), nn.Linear(width, 1))

    def forward(self, query, documents):
        pair = torch.cat([query.expand_as(documents), documents], dim=-1)
        return self.net(pair).squeeze(-1)


class Writer(nn.Module):
    def __init__(self, vocab=100, width=16):
        super().__init__()
        self.cell = nn.GRUCell(width, width)
        self.out = nn.Linear(width, vocab)

    def forward(self, start, steps):
        h, words = start, []
        for _ in range(steps):
            h = self.cell(h, h)
            words.append(self.out(h).argmax(-1))
        return torch.stack(words, dim=1)


class ModelPool:
    """At most `room` models on each card; the one leased longest ago makes place."""

    def __init__(self, room=1):
        self.room = room
        self.models = {}
        self.cards = {}
        self.resident = {}

    def add(self, name, model, card):
        self.models[name] = model.eval()
        self.cards[name] = card
        self.resident.setdefault(card, OrderedDict())

    def lease(self, name):
        card = self.cards[name]
        present = self.resident[card]
        if name not in present:
            while len(present) >= self.room:
                oldest, _ = present.popitem(last=False)
                self.models[oldest].to("cpu")
            self.models[name].to(card)
        present[name] = True
        present.move_to_end(name)
        return self.models[name]


class Assistant:
    def __init__(self, pool, documents):
        self.pool = pool
        self.encoder = pool.lease("encoder")
        self.index = self.encode_all(documents)

    def ids(self, texts):
        rows = [[ord(c) % 100 for c in t[:10].ljust(10)] for t in texts]
        return torch.tensor(rows, device=self.pool.cards["encoder"])

    def encode_all(self, texts):
        with torch.no_grad():
            return self.encoder(self.ids(texts))

    @torch.no_grad()
    def answer(self, question):
        query = self.encode_all([question])
        near = (self.index @ query.T).squeeze(1).topk(3).indices
        ranker = self.pool.lease("ranker")
        best = near[ranker(query, self.index[near]).argmax()]
        writer = self.pool.lease("writer")
        start = self.index[best].unsqueeze(0).to(self.pool.cards["writer"])
        return int(best), writer(start, 4).tolist()


def make_pool():
    pool = ModelPool(room=1)
    pool.add("encoder", PhraseEncoder(), "cuda:0")
    pool.add("ranker", Reranker(), "cuda:0")
    pool.add("writer", Writer(), "cuda:1")
    return pool


if __name__ == "__main__":
    torch.manual_seed(0)
    assistant = Assistant(make_pool(), ["about boats", "about trains", "on bread", "on old maps"])
    for question in ("which boat?", "what bread?"):
        print(question, *assistant.answer(question))
