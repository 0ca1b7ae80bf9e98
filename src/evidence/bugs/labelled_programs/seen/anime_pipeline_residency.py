# cause: weights-moved-away-by-manager|module-left-on-other-device
# guilty: self.embed (self.embed.weight, tokens)
# line: 44
# repair: in ImagePipeline.__call__ ask the manager again before the second prompt: self.residency.use("text")(negative) in place of the kept text module OR encode both prompts before the denoiser is loaded
"""Image pipeline for cards with little memory: a residency manager swaps the parts."""
from collections import OrderedDict

import torch
import torch.nn as nn


class Residency:
    """Keeps at most `slots` modules on each card; the one used least recently goes to the host."""

    def __init__(self, slots=1):
        self.slots = slots
        self.modules, self.home, self.loaded = {}, {}, {}

    def add(self, name, module, card):
        self.modules[name] = module.to("cpu").eval()
        self.home[name] = card
        self.loaded.setdefault(card, OrderedDict())

    def use(self, name):
        card, module = self.home[name], self.modules[name]
        resident = self.loaded[card]
        if name in resident:
            resident.move_to_end(name)
            return module
        while len(resident) >= self.slots:
            old, _ = resident.popitem(last=False)
            self.modules[old].to("cpu")
        resident[name] = True
        return module.to(card)


class TextTower(nn.Module):
    def __init__(self, vocab=90, dim=24):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.mix = nn.GRU(dim, dim, batch_first=True)

    def forward(self, tokens):
        x = self.embed(tokens)
        return self.mix(x)[0].mean(1)


class Denoiser(nn.Module):
    def __init__(self, ch=4, dim=24):
        super().__init__()
        self.inp = nn.Conv2d(ch, 16, 3, padding=1)
        self.cond = nn.Linear(dim, 16)
        self.out = nn.Conv2d(16, ch, 3, padding=1)

    def forward(self, x, text):
        return self.out((self.inp(x) + self.cond(text)[:, :, None, None]).relu())


class PixelDecoder(nn.Module):
    def __init__(self, ch=4):
        super().__init__()
        self.up = nn.ConvTranspose2d(ch, 3, 4, 2, 1)

    def forward(self, z):
        return self.up(z).sigmoid()


class ImagePipeline:
    def __init__(self, residency, cards=("cuda:0", "cuda:1")):
        self.residency, self.cards = residency, cards
        residency.add("text", TextTower(), cards[0])
        residency.add("denoiser", Denoiser(), cards[0])
        residency.add("decoder", PixelDecoder(), cards[1])

    def guided(self, denoiser, x, positive, negative, scale):
        plain = denoiser(x, negative)
        return plain + scale * (denoiser(x, positive) - plain)

    @torch.no_grad()
    def __call__(self, prompt, negative=None, steps=3, scale=5.0):
        card = self.cards[0]
        text = self.residency.use("text")
        positive = text(prompt.to(card))
        denoiser = self.residency.use("denoiser")
        x = torch.randn(prompt.shape[0], 4, 8, 8, device=card)
        if negative is None:
            unwanted = torch.zeros_like(positive)
        else:
            unwanted = text(negative.to(card))
        denoiser = self.residency.use("denoiser")
        for _ in range(steps):
            x = x - self.guided(denoiser, x, positive, unwanted, scale) / steps
        return self.residency.use("decoder")(x.to(self.cards[1])).cpu()


if __name__ == "__main__":
    torch.manual_seed(0)
    pipe = ImagePipeline(Residency(slots=1))
    print(pipe(torch.randint(0, 90, (1, 6))).shape)
    print(pipe(torch.randint(0, 90, (1, 6)), negative=torch.randint(0, 90, (1, 4))).shape)
