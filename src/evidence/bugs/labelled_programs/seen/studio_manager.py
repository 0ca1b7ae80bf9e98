# cause: weights-moved-away-by-manager
# guilty: self.emb
import torch
import torch.nn as nn


class ModelManager:
    """Keeps at most `slots` models on the accelerator, least recently used goes first."""

    def __init__(self, device, slots=2):
        self.device = torch.device(device)
        self.slots = slots
        self.models, self.resident = {}, []

    def register(self, name, model):
        self.models[name] = model.eval().requires_grad_(False).to("cpu")

    def acquire(self, name):
        if name in self.resident:
            self.resident.remove(name)
        while len(self.resident) >= self.slots:
            self.models[self.resident.pop(0)].to("cpu")
        self.resident.append(name)
        return self.models[name].to(self.device)


class Encoder(nn.Module):
    def __init__(self, d=24):
        super().__init__()
        self.emb = nn.Embedding(80, d)
        self.ff = nn.Linear(d, d)

    def forward(self, ids):
        return torch.tanh(self.ff(self.emb(ids))).mean(1)


class Denoiser(nn.Module):
    def __init__(self, d=24, z=16):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(z + d + 1, 64), nn.SiLU(), nn.Linear(64, z))

    def forward(self, z, cond, t):
        return self.net(torch.cat([z, cond, t.expand(z.size(0), 1)], dim=1))


class Decoder(nn.Sequential):
    def __init__(self, z=16):
        super().__init__(nn.Linear(z, 64), nn.SiLU(), nn.Linear(64, 48), nn.Sigmoid())


@torch.no_grad()
def render(manager, prompts, steps=4):
    encoder = manager.acquire("encoder")
    images = []
    for ids in prompts:
        ids = ids.to(manager.device)
        cond = encoder(ids)
        denoiser = manager.acquire("denoiser")
        z = torch.randn(ids.size(0), 16, device=manager.device)
        for i in reversed(range(steps)):
            t = torch.full((1, 1), i / steps, device=manager.device)
            z = z - denoiser(z, cond, t) / steps
        decoder = manager.acquire("decoder")
        images.append(decoder(z).cpu())
    return torch.cat(images)


if __name__ == "__main__":
    torch.manual_seed(0)
    manager = ModelManager("cuda:0")
    for name, model in (("encoder", Encoder()), ("denoiser", Denoiser()), ("decoder", Decoder())):
        manager.register(name, model)
    prompts = [torch.randint(0, 80, (2, 5)) for _ in range(3)]
    print(render(manager, prompts).shape)
