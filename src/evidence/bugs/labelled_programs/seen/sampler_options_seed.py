# cause: generator-or-default-device
# guilty: self.generator (generator, options generator)
# line: 57
# repair: make the generator on the device of the probabilities (torch.Generator(device=probs.device), or TokenSampler(options, device=model.device)) instead of torch.Generator() in TokenSampler.from_options OR draw on the host: torch.multinomial(probs.cpu(), ...).to(probs.device)
"""Sampling options for a small character model; seeds make the stories repeatable."""
from dataclasses import dataclass
from typing import Optional

import torch
from torch import nn


@dataclass
class SamplingOptions:
    temperature: float = 0.9
    top_p: float = 0.95
    seed: Optional[int] = None
    max_tokens: int = 16

    @classmethod
    def preset(cls, name):
        presets = {"careful": cls(0.5, 0.8), "wild": cls(1.3, 0.99), "repeatable": cls(seed=1234)}
        return presets[name]


class TopP:
    def __init__(self, p):
        self.p = p

    def __call__(self, logits):
        values, order = logits.sort(dim=-1, descending=True)
        total = values.softmax(-1).cumsum(-1)
        drop = total - values.softmax(-1) > self.p
        values = values.masked_fill(drop, float("-inf"))
        return torch.full_like(logits, float("-inf")).scatter(-1, order, values)


class TokenSampler:
    def __init__(self, temperature, filters, generator=None):
        self.temperature = temperature
        self.filters = filters
        self.generator = generator

    @classmethod
    def from_options(cls, options):
        generator = None
        if options.seed is not None:
            generator = torch.Generator()
            generator.manual_seed(options.seed)
        return cls(options.temperature, [TopP(options.top_p)], generator)

    def __call__(self, logits):
        logits = logits / self.temperature
        for f in self.filters:
            logits = f(logits)
        probs = logits.softmax(-1)
        return torch.multinomial(probs, 1, generator=self.generator)


class CharModel(nn.Module):
    def __init__(self, vocab=64, width=32):
        super().__init__()
        self.embed = nn.Embedding(vocab, width)
        self.cell = nn.GRU(width, width, num_layers=2, batch_first=True)
        self.out = nn.Linear(width, vocab)

    def forward(self, ids, state=None):
        x, state = self.cell(self.embed(ids), state)
        return self.out(x[:, -1]), state


class StoryTeller:
    def __init__(self, model, device):
        self.model = model.to(device).eval()
        self.device = torch.device(device)

    @torch.no_grad()
    def tell(self, prompt, options):
        sampler = TokenSampler.from_options(options)
        ids = torch.tensor([[ord(c) % 64 for c in prompt]], device=self.device)
        state, told = None, []
        for _ in range(options.max_tokens):
            logits, state = self.model(ids, state)
            ids = sampler(logits)
            told.append(int(ids))
        return told


if __name__ == "__main__":
    torch.manual_seed(0)
    teller = StoryTeller(CharModel(), "cuda:0")
    for style in ("careful", "wild", "repeatable"):
        print(style, teller.tell("once upon", SamplingOptions.preset(style)))
