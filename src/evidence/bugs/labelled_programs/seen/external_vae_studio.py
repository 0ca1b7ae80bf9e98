# cause: module-left-on-other-device|weights-moved-away-by-manager
# guilty: self.inp (unet)
# line: 28
# repair: in Studio.place do not take Pipeline.device for the place of every component: move each component whose own weights are elsewhere (for m in pipe.parts.values(): m.to(target)) OR let Pipeline.device look at all components
"""A small image studio: pipelines are assembled from parts, a separately chosen VAE included."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class TextPart(nn.Module):
    def __init__(self, vocab=60, dim=20):
        super().__init__()
        self.bag = nn.EmbeddingBag(vocab, dim)

    def forward(self, ids):
        return self.bag(ids)


class UNetPart(nn.Module):
    def __init__(self, channels=4, width=16, dim=20):
        super().__init__()
        self.inp = nn.Conv2d(channels, width, 3, padding=1)
        self.cond = nn.Linear(dim, width)
        self.out = nn.Conv2d(width, channels, 3, padding=1)

    def forward(self, z, text):
        h = self.inp(z)
        return self.out(F.silu(h + self.cond(text)[:, :, None, None]))


class VAEPart(nn.Module):
    def __init__(self, channels=4):
        super().__init__()
        self.enc = nn.Conv2d(3, channels, 4, stride=4)
        self.dec = nn.ConvTranspose2d(channels, 3, 4, stride=4)

    def encode(self, images):
        return self.enc(images)

    def decode(self, z):
        return self.dec(z).sigmoid()


def where(module):
    return next(module.parameters()).device


class Pipeline:
    def __init__(self, **parts):
        self.parts = parts

    @property
    def device(self):
        for part in self.parts.values():
            if where(part).type != "cpu":
                return where(part)
        return torch.device("cpu")

    def swap(self, **parts):
        self.parts.update(parts)

    @torch.no_grad()
    def restyle(self, images, ids, steps=4, strength=0.5):
        vae, text, unet = self.parts["vae"], self.parts["text"], self.parts["unet"]
        prompt = text(ids.to(where(text)))
        z = vae.encode(images.to(self.device))
        z = z + strength * torch.randn_like(z)
        for _ in range(steps):
            z = z - strength / steps * unet(z, prompt)
        return vae.decode(z).cpu()


class Studio:
    def __init__(self, target):
        self.target = torch.device(target)
        self.pipelines = {}

    def assemble(self, name, unet, text, vae):
        self.pipelines[name] = Pipeline(vae=vae, text=text, unet=unet)

    def use_vae(self, name, vae):
        self.pipelines[name].swap(vae=vae.eval().to(self.target))

    def place(self, pipe, target):
        if pipe.device == target:
            return
        for part in pipe.parts.values():
            part.to(target)

    def prepare_prompt(self, pipe):
        text = pipe.parts["text"]
        if where(text) != self.target:
            text.to(self.target)

    def render(self, name, images, ids):
        pipe = self.pipelines[name]
        self.place(pipe, self.target)
        self.prepare_prompt(pipe)
        return pipe.restyle(images, ids)


def parts(card):
    return {"unet": UNetPart().eval().to(card), "text": TextPart().eval().to(card), "vae": VAEPart().eval().to(card)}


def main():
    torch.manual_seed(0)
    studio = Studio("cuda:1")
    images, ids = torch.rand(2, 3, 32, 32), torch.randint(0, 60, (2, 6))
    studio.assemble("landscape", **parts("cuda:0"))
    print("own vae", studio.render("landscape", images, ids).mean().item())
    studio.assemble("portrait", **parts("cuda:0"))
    studio.use_vae("portrait", VAEPart())
    print("external vae", studio.render("portrait", images, ids).mean().item())


if __name__ == "__main__":
    main()
