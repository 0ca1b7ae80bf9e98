# cause: offload-hook-bypassed|module-left-on-other-device
# guilty: self.text.tokens.weight (self.tokens.weight, self.tokens, self.text, self)
# line: 19
# repair: in Pipeline.enable_offload hook every component, also those that are not in the order of this pipeline, or do not strip the hooks of components shared with another pipeline OR call draw.enable_offload(card) again before draw is used after vary was set up
"""Picture service with two pipelines, text to picture and picture variation, over one set of weights."""
import torch
import torch.nn as nn
from accelerate import cpu_offload_with_hook
from accelerate.hooks import remove_hook_from_module


class TextEncoder(nn.Module):
    def __init__(self, vocab=96, dim=32):
        super().__init__()
        self.tokens = nn.Embedding(vocab, dim)
        self.mix = nn.GRU(dim, dim, batch_first=True)

    def forward(self, ids):
        return self.mix(self.tokens(ids))[0].mean(1)


class PictureEncoder(nn.Module):
    def __init__(self, dim=32):
        super().__init__()
        self.patches, self.out = nn.Conv2d(3, dim, 4, 4), nn.Linear(dim, dim)

    def forward(self, pictures):
        return self.out(self.patches(pictures).flatten(2).mean(-1))


class Flow(nn.Module):
    def __init__(self, size=64, dim=32):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(size + dim + 1, 128), nn.SiLU(), nn.Linear(128, size))

    def forward(self, x, t, condition):
        return self.net(torch.cat([x, condition, t], -1))


class Decoder(nn.Module):
    def __init__(self, size=64):
        super().__init__()
        self.up = nn.Sequential(nn.Linear(size, 3 * 16 * 16), nn.Tanh())

    def forward(self, x):
        return self.up(x).view(-1, 3, 16, 16)


class Pipeline:
    order = ()

    def __init__(self, **components):
        self.components = components
        for name, module in components.items():
            setattr(self, name, module.eval())
        self.card = torch.device("cpu")

    def enable_offload(self, card):
        self.card = torch.device(card)
        for module in self.components.values():
            remove_hook_from_module(module, recurse=True)
            module.to("cpu")
        hook = None
        for name in self.order:
            _, hook = cpu_offload_with_hook(self.components[name], self.card, prev_module_hook=hook)
        self.last_hook = hook
        return self

    def sample(self, condition, steps=4):
        x = torch.randn(len(condition), 64, device=self.card)
        for step in range(steps):
            t = torch.full((len(x), 1), step / steps, device=self.card)
            x = x + self.flow(x, t, condition) / steps
        pictures = self.decoder(x)
        self.last_hook.offload()
        return pictures


class Draw(Pipeline):
    order = ("text", "flow", "decoder")

    def __call__(self, prompts):
        ids = torch.tensor([[ord(c) % 96 for c in p.ljust(16)[:16]] for p in prompts]).to(self.card)
        return self.sample(self.text(ids))


class Vary(Pipeline):
    order = ("picture", "flow", "decoder")

    def __call__(self, pictures):
        return self.sample(self.picture(pictures.to(self.card)))


@torch.no_grad()
def main():
    torch.manual_seed(0)
    card = "cuda:1"
    parts = {"text": TextEncoder(), "picture": PictureEncoder(), "flow": Flow(), "decoder": Decoder()}
    draw = Draw(**parts).enable_offload(card)
    first = draw(["a red kite", "low tide"])
    print("drawn", tuple(first.shape))
    vary = Vary(**draw.components).enable_offload(card)
    print("varied", tuple(vary(first).shape), vary(first).device)
    for prompt in ("a paper boat", "two herons"):
        picture = draw([prompt])
        print(prompt, round(picture.std().item(), 3))


if __name__ == "__main__":
    main()
