# cause: generation-helper-on-wrong-device|lm-head-or-tied-weight-split
# guilty: seen (self.counts, self.counts[rows])
# line: 74
# repair: in PresenceTable.penalise move the counts to the scores: seen = self.counts[rows].to(scores.device) OR build the table on the device of the output head (model.head.weight.device) instead of model.device
"""Continuous batching with presence and frequency penalties over a model cut in two."""
from collections import deque
from dataclasses import dataclass, field

import torch
import torch.nn as nn


@dataclass
class Request:
    uid: int
    prompt: list
    budget: int
    output: list = field(default_factory=list)

    @property
    def tokens(self):
        return self.prompt + self.output


class GatedLayer(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.inp = nn.Linear(dim, 2 * dim)
        self.out = nn.Linear(dim, dim)

    def forward(self, x, keep):
        value, gate = self.inp(self.norm(x)).chunk(2, -1)
        state = (value * keep).cumsum(1) / keep.cumsum(1).clamp(min=1)
        return x + self.out(state * gate.sigmoid())


class TwoCardLM(nn.Module):
    def __init__(self, vocab=96, dim=32, depth=4, cards=("cuda:0", "cuda:1")):
        super().__init__()
        self.vocab = vocab
        self.embed = nn.Embedding(vocab, dim, padding_idx=0).to(cards[0])
        self.layers = nn.ModuleList(GatedLayer(dim).to(cards[i * len(cards) // depth]) for i in range(depth))
        self.head = nn.Linear(dim, vocab, bias=False).to(cards[-1])

    @property
    def device(self):
        return next(self.parameters()).device

    def forward(self, ids):
        keep = (ids != 0).unsqueeze(-1).float()
        x = self.embed(ids)
        for layer in self.layers:
            card = layer.norm.weight.device
            x = layer(x.to(card), keep.to(card))
        return self.head(x.to(self.head.weight.device))


class PresenceTable:
    """How often each slot has produced each token."""

    def __init__(self, slots, vocab, device, presence=0.6, frequency=0.2):
        self.counts = torch.zeros(slots, vocab, device=device)
        self.presence, self.frequency = presence, frequency

    def clear(self, slot):
        self.counts[slot].zero_()

    def note(self, slot, token):
        self.counts[slot, token] += 1

    def penalise(self, scores, rows):
        seen = self.counts[rows]
        return scores - self.presence * (seen > 0) - self.frequency * seen


class Engine:
    def __init__(self, model, slots=3):
        self.model = model.eval()
        self.slots = [None] * slots
        self.table = PresenceTable(slots, model.vocab, model.device)
        self.waiting, self.finished = deque(), {}

    def submit(self, request):
        self.waiting.append(request)

    def admit(self):
        for slot, request in enumerate(self.slots):
            if request is None and self.waiting:
                self.slots[slot] = self.waiting.popleft()
                self.table.clear(slot)

    def pack(self, rows):
        tokens = [self.slots[r].tokens for r in rows]
        width = max(map(len, tokens))
        return torch.tensor([[0] * (width - len(t)) + t for t in tokens], device=self.model.device)

    @torch.inference_mode()
    def step(self):
        self.admit()
        rows = [i for i, r in enumerate(self.slots) if r is not None]
        scores = self.model(self.pack(rows))[:, -1].float()
        scores = self.table.penalise(scores, rows)
        for row, token in zip(rows, scores.argmax(-1).tolist()):
            request = self.slots[row]
            request.output.append(token)
            self.table.note(row, token)
            if len(request.output) >= request.budget:
                self.finished[request.uid] = request.output
                self.slots[row] = None

    def run(self):
        while self.waiting or any(self.slots):
            self.step()
        return self.finished


def main():
    torch.manual_seed(0)
    engine = Engine(TwoCardLM())
    for uid in range(5):
        engine.submit(Request(uid, list(range(1, 4 + uid)), budget=4 + uid))
    for uid, output in engine.run().items():
        print(uid, output)


if __name__ == "__main__":
    main()
