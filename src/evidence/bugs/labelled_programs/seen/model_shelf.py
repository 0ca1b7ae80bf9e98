# cause: weights-moved-away-by-manager
# guilty: denoise
"""Text-conditioned generation where a shelf keeps only a few models on the card."""
from collections import OrderedDict

import torch
from torch import nn


class Shelf:
    """Keeps at most `room` models on the device, the least recently used go back to the host."""

    def __init__(self, device, room):
        self.device, self.room = torch.device(device), room
        self.models, self.resident = {}, OrderedDict()

    def put(self, name, model):
        self.models[name] = model.eval()

    def take(self, name):
        if name in self.resident:
            self.resident.move_to_end(name)
        else:
            while len(self.resident) >= self.room:
                _, idle = self.resident.popitem(last=False)
                idle.to("cpu")
            self.resident[name] = self.models[name].to(self.device)
        return self.resident[name]


def fill(shelf, dim=16):
    shelf.put("prompt", nn.Sequential(nn.EmbeddingBag(50, dim), nn.Linear(dim, dim)))
    shelf.put("denoise", nn.Sequential(nn.Linear(2 * dim, 32), nn.SiLU(), nn.Linear(32, dim)))
    shelf.put("decode", nn.Sequential(nn.Linear(dim, 48), nn.Tanh()))
    shelf.put("safety", nn.Linear(48, 1))
    return shelf


@torch.no_grad()
def generate(shelf, prompt_ids, steps=6, preview_every=2, dim=16):
    ids = torch.tensor([prompt_ids]).to(shelf.device)
    condition = shelf.take("prompt")(ids)
    z = torch.randn(1, dim, device=shelf.device)
    denoise = shelf.take("denoise")
    previews = []
    for i in range(steps):
        eps = denoise(torch.cat([z, condition], dim=-1))
        z = z - eps / steps
        if (i + 1) % preview_every == 0:
            image = shelf.take("decode")(z)
            score = shelf.take("safety")(image).sigmoid()
            previews.append((image.cpu(), float(score)))
    return previews


if __name__ == "__main__":
    torch.manual_seed(0)
    shelf = fill(Shelf("cuda:0", room=2))
    for prompt in ([3, 9, 27], [1, 2]):
        print([round(s, 3) for _, s in generate(shelf, prompt)])
