# cause: weights-moved-away-by-manager
# guilty: self.table (self.table.weight, self.text)
# line: 17
# repair: in Studio.render ask the juggler for the text encoder again before the negative prompt is encoded (self.juggler.use("text")) OR encode both prompts before the painter is loaded
"""A memory juggler keeps one network at a time on the small card."""
import torch
import torch.nn as nn


class TextNet(nn.Module):
    def __init__(self, vocab=64, dim=16):
        super().__init__()
        self.table = nn.Embedding(vocab, dim)
        self.mix = nn.Linear(dim, dim)

    def forward(self, ids):
        return self.mix(self.table(ids)).mean(1)


class Painter(nn.Module):
    def __init__(self, dim=16):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(dim * 2, 32), nn.SiLU(), nn.Linear(32, dim))

    def forward(self, x, cond):
        return self.net(torch.cat([x, cond], -1))


class Juggler:
    def __init__(self, device, resident=1):
        self.device, self.resident = torch.device(device), resident
        self.models, self.order = {}, []

    def register(self, name, model):
        self.models[name] = model
        return model

    def use(self, name):
        if name in self.order:
            self.order.remove(name)
        self.order.append(name)
        while len(self.order) > self.resident:
            self.models[self.order.pop(0)].to("cpu")
        return self.models[name].to(self.device)


class Studio:
    def __init__(self, device):
        self.juggler = Juggler(device)
        self.text = self.juggler.register("text", TextNet().eval())
        self.painter = self.juggler.register("painter", Painter().eval())
        self.device = device

    def encode(self, ids):
        return self.text(ids.to(self.device))

    @torch.no_grad()
    def render(self, prompt, negative=None, steps=4, guidance=3.0):
        self.juggler.use("text")
        cond = self.encode(prompt)
        painter = self.juggler.use("painter")
        uncond = torch.zeros_like(cond) if negative is None else self.encode(negative)
        x = torch.randn(cond.shape, device=self.device)
        for _ in range(steps):
            eps_c, eps_u = painter(x, cond), painter(x, uncond)
            x = x - (eps_u + guidance * (eps_c - eps_u)) / steps
        return x.cpu()


if __name__ == "__main__":
    torch.manual_seed(0)
    studio = Studio("cuda:1")
    words = torch.randint(0, 64, (2, 5))
    print(studio.render(words).std())
    print(studio.render(words, negative=torch.randint(0, 64, (2, 5))).std())
