# cause: weights-moved-away-by-manager
# guilty: ?
import torch
from torch import nn


class TextEncoder(nn.Module):
    def __init__(self, vocab=100, dim=32):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.out = nn.Linear(dim, dim)

    def forward(self, ids):
        return self.out(self.embed(ids).mean(1))


class Denoiser(nn.Module):
    def __init__(self, dim=32):
        super().__init__()
        self.inp, self.cond, self.out = nn.Conv2d(4, dim, 3, 1, 1), nn.Linear(dim, dim), nn.Conv2d(dim, 4, 3, 1, 1)

    def forward(self, x, c):
        return self.out(torch.relu(self.inp(x) + self.cond(c)[:, :, None, None]))


class MemoryManager:
    """Keeps at most one model on the GPU, the others wait in RAM."""

    def __init__(self, device, **models):
        self.device, self.models, self.current = device, models, None

    def load(self, name):
        if self.current is not None and self.current != name:
            self.models[self.current].to("cpu")
        self.current = name
        return self.models[name].to(self.device)


class Pipeline:
    def __init__(self, device):
        self.device = device
        self.memory = MemoryManager(device, text=TextEncoder().eval(), unet=Denoiser().eval())

    @torch.no_grad()
    def __call__(self, ids, negative_ids, steps=4, cfg=5.0):
        text = self.memory.load("text")
        cond = text(ids.to(self.device))
        unet = self.memory.load("unet")
        uncond = text(negative_ids.to(self.device))
        x = torch.randn(ids.size(0), 4, 8, 8, device=self.device)
        for i in range(steps):
            e_c, e_u = unet(x, cond), unet(x, uncond)
            x = x - 0.1 * (e_u + cfg * (e_c - e_u))
        return x


torch.manual_seed(0)
pipe = Pipeline(torch.device("cuda:0"))
print(pipe(torch.randint(0, 100, (2, 6)), torch.zeros(2, 6, dtype=torch.long)).std())
