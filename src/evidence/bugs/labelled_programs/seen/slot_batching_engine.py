# cause: lm-head-or-tied-weight-split|generation-helper-on-wrong-device
# guilty: tokens (self.sample(logits), logits)
# line: 75
# repair: in Engine.step bring the sampled tokens to the slot tables, tokens = self.sample(logits).to(self.device), OR let StagedModel.forward return the logits on the card of the embedding (or put the head there)
"""Continuous batching over a model in two stages: requests take a slot, leave it when done, others move in."""
from collections import deque
from dataclasses import dataclass, field

import torch
import torch.nn as nn


@dataclass
class Request:
    name: str
    prompt: list
    budget: int
    words: list = field(default_factory=list)


class StagedModel(nn.Module):
    def __init__(self, cards, vocab=100, dim=32, depth=4):
        super().__init__()
        self.cards = [torch.device(cards[i * len(cards) // depth]) for i in range(depth)]
        self.embed = nn.Embedding(vocab, dim).to(self.cards[0])
        self.cells = nn.ModuleList(nn.GRUCell(dim, dim).to(c) for c in self.cards)
        self.head = nn.Linear(dim, vocab).to(self.cards[-1])

    def new_states(self, slots):
        return [torch.zeros(slots, cell.hidden_size, device=card) for cell, card in zip(self.cells, self.cards)]

    def forward(self, tokens, states, rows):
        x = self.embed(tokens)
        for cell, card, state in zip(self.cells, self.cards, states):
            x, at = x.to(card), rows.to(card)
            fresh = cell(x, state[at])
            state[at] = fresh
            x = x + fresh
        return self.head(x)


class Engine:
    def __init__(self, model, slots=4, temperature=0.8):
        self.model, self.temperature = model, temperature
        self.device = model.embed.weight.device
        self.states = model.new_states(slots)
        self.last = torch.zeros(slots, dtype=torch.long, device=self.device)
        self.made = torch.zeros(slots, dtype=torch.long, device=self.device)
        self.requests = [None] * slots
        self.queue, self.finished = deque(), []

    def submit(self, request):
        self.queue.append(request)

    def admit(self):
        for slot, held in enumerate(self.requests):
            if held is None and self.queue:
                request = self.queue.popleft()
                self.requests[slot] = request
                for state in self.states:
                    state[slot] = 0
                row = torch.tensor([slot], device=self.device)
                for token in request.prompt[:-1]:
                    self.model(torch.tensor([token], device=self.device), self.states, row)
                self.last[slot], self.made[slot] = request.prompt[-1], 0

    def sample(self, logits):
        return torch.multinomial((logits / self.temperature).softmax(-1), 1).squeeze(1)

    def step(self):
        self.admit()
        rows = torch.tensor([i for i, r in enumerate(self.requests) if r is not None], device=self.device)
        logits = self.model(self.last[rows], self.states, rows)
        tokens = self.sample(logits)
        self.last[rows] = tokens
        self.made[rows] += 1
        for slot, token, made in zip(rows.tolist(), tokens.tolist(), self.made[rows].tolist()):
            request = self.requests[slot]
            request.words.append(token)
            if token == 0 or made >= request.budget:
                self.finished.append(request)
                self.requests[slot] = None

    def run(self):
        while self.queue or any(r is not None for r in self.requests):
            self.step()
        return self.finished


@torch.no_grad()
def main():
    torch.manual_seed(0)
    engine = Engine(StagedModel(["cuda:0", "cuda:1"]).eval(), slots=2)
    for name, prompt, budget in (("ann", [5, 6, 7], 4), ("bo", [9], 6), ("cy", [11, 2], 3), ("di", [4, 4, 4], 5)):
        engine.submit(Request(name, prompt, budget))
    for request in engine.run():
        print(request.name, request.words)


if __name__ == "__main__":
    main()
