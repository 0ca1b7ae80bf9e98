# cause: weights-moved-away-by-manager|module-left-on-other-device
# guilty: self.inp (denoiser)
# line: 28
# repair: in CardManager.make_room take the entry out of the books when it is sent away (self.resident.discard(name)), so that request moves it back OR let request look at the real place of the weights
"""Tiled upscaling: a memory manager keeps a budget on the work card and spills to the second one."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class Upscaler(nn.Module):
    def __init__(self, width=24):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(3, width, 3, padding=1), nn.ReLU(), nn.Conv2d(width, 12, 3, padding=1))

    def forward(self, x):
        return F.pixel_shuffle(self.body(x), 2)


class Denoiser(nn.Module):
    def __init__(self, width=24, dim=16):
        super().__init__()
        self.inp = nn.Conv2d(3, width, 3, padding=1)
        self.cond = nn.Linear(dim, width)
        self.out = nn.Conv2d(width, 3, 3, padding=1)

    def forward(self, x, cond):
        h = self.inp(x)
        return self.out(F.silu(h + self.cond(cond)[:, :, None, None]))


class Conditioner(nn.Module):
    def __init__(self, vocab=50, dim=16):
        super().__init__()
        self.bag = nn.EmbeddingBag(vocab, dim)

    def forward(self, ids):
        return self.bag(ids)


def weight_count(module):
    return sum(p.numel() for p in module.parameters())


class CardManager:
    def __init__(self, work, spill, budget):
        self.work, self.spill, self.budget = torch.device(work), torch.device(spill), budget
        self.models, self.resident, self.history = {}, set(), []

    def register(self, name, module):
        self.models[name] = module.eval().to(self.spill)

    def used(self):
        return sum(weight_count(m) for m in self.models.values() if next(m.parameters()).device == self.work)

    def make_room(self, wanted, keep):
        for name in list(self.history):
            if self.used() + wanted <= self.budget:
                return
            if name != keep and next(self.models[name].parameters()).device == self.work:
                self.models[name].to(self.spill)
                self.history.remove(name)

    def request(self, name):
        module = self.models[name]
        if name not in self.resident:
            self.make_room(weight_count(module), keep=name)
            module.to(self.work)
            self.resident.add(name)
            self.history.append(name)
        return module


def tiles(image, size):
    for top in range(0, image.shape[-2], size):
        for left in range(0, image.shape[-1], size):
            yield top, left, image[..., top:top + size, left:left + size]


class TiledUpscale:
    def __init__(self, manager, tile=16, steps=3):
        self.manager, self.tile, self.steps = manager, tile, steps

    def refine(self, patch, cond):
        denoiser = self.manager.request("denoiser")
        for step in range(self.steps):
            patch = patch - 0.1 / (step + 1) * denoiser(patch, cond)
        return patch

    @torch.no_grad()
    def __call__(self, image, ids):
        work = self.manager.work
        cond = self.manager.request("conditioner")(ids.to(work))
        image = image.to(work)
        draft = torch.cat([self.refine(t, cond) for _, _, t in tiles(image, self.tile)][:1])
        canvas = torch.zeros(1, 3, image.shape[-2] * 2, image.shape[-1] * 2, device=work)
        for top, left, patch in tiles(image, self.tile):
            big = self.manager.request("upscaler")(patch)
            big = self.refine(big, cond)
            canvas[..., 2 * top:2 * top + big.shape[-2], 2 * left:2 * left + big.shape[-1]] = big
        return canvas.cpu(), draft.mean().item()


def main():
    torch.manual_seed(0)
    manager = CardManager("cuda:0", "cuda:1", budget=4500)
    for name, module in (("conditioner", Conditioner()), ("denoiser", Denoiser()), ("upscaler", Upscaler())):
        manager.register(name, module)
        print(name, weight_count(module))
    upscale = TiledUpscale(manager)
    result, draft = upscale(torch.rand(1, 3, 32, 32), torch.randint(0, 50, (1, 5)))
    print(tuple(result.shape), round(draft, 3), "on the work card:", manager.used())


if __name__ == "__main__":
    main()
