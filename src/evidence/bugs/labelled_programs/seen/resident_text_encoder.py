# cause: weights-moved-away-by-manager|module-left-on-other-device
# guilty: self.embed (ids, self.embed.weight)
# line: 19
# repair: in Studio.draw encode inside the with block (make states a list: [self.encode(p) for p in prompts]); the generator expression runs only after the manager has put the text encoder back on the host
"""Low-memory studio: only the component in use is on a card; the painter has the second card."""
from contextlib import contextmanager

import torch
import torch.nn as nn


class TextEncoder(nn.Module):
    def __init__(self, vocab=128, dim=16):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.rnn = nn.GRU(dim, dim, batch_first=True)

    def forward(self, ids):
        x = self.embed(ids)
        return self.rnn(x)[1][-1]


class Painter(nn.Module):
    def __init__(self, dim=16, width=16):
        super().__init__()
        self.cond = nn.Linear(dim, width)
        self.inp, self.out = nn.Conv2d(3, width, 3, padding=1), nn.Conv2d(width, 3, 3, padding=1)

    def forward(self, x, state):
        return self.out(torch.tanh(self.inp(x) + self.cond(state)[:, :, None, None]))


class Residency:
    """Loads a component to its card for the length of a with block."""

    def __init__(self, homes):
        self.homes, self.components = homes, {}

    def add(self, name, module):
        self.components[name] = module.to("cpu").eval()

    @contextmanager
    def resident(self, name):
        module = self.components[name].to(self.homes[name])
        try:
            yield module, self.homes[name]
        finally:
            module.to("cpu")


class Studio:
    def __init__(self, homes):
        self.manager = Residency(homes)
        self.manager.add("text", TextEncoder())
        self.manager.add("painter", Painter())

    @staticmethod
    def tokens(prompt, device):
        return torch.tensor([[min(ord(c), 127) for c in prompt or " "]], device=device)

    def encode(self, prompt, encoder, device):
        return encoder(self.tokens(prompt, device))

    @torch.no_grad()
    def draw(self, prompts, steps=4, size=8):
        with self.manager.resident("text") as (encoder, card):
            states = (self.encode(p, encoder, card) for p in prompts)
        with self.manager.resident("painter") as (painter, card):
            images = []
            for state in states:
                x = torch.randn(1, 3, size, size, device=card)
                for _ in range(steps):
                    x = x - 0.2 * painter(x, state.to(card))
                images.append(x.cpu())
        return torch.cat(images)


if __name__ == "__main__":
    torch.manual_seed(0)
    studio = Studio({"text": "cuda:0", "painter": "cuda:1"})
    print(studio.draw(["a boat", "a hill at night", ""]).shape)
