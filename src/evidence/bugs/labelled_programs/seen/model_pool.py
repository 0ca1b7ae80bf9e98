# cause: weights-moved-away-by-manager
# guilty: vae.dec (self.vae)
from collections import OrderedDict
import torch
from torch import nn


class Pool:
    def __init__(self, device, capacity_params):
        self.device, self.capacity = torch.device(device), capacity_params
        self.resident = OrderedDict()

    @staticmethod
    def size(m):
        return sum(p.numel() for p in m.parameters())

    def acquire(self, name, module):
        if name in self.resident:
            self.resident.move_to_end(name)
            return module
        need = self.size(module)
        while self.resident and sum(map(self.size, self.resident.values())) + need > self.capacity:
            _, old = self.resident.popitem(last=False)
            old.to("cpu")
        self.resident[name] = module.to(self.device)
        return module


class TextEncoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb, self.fc = nn.Embedding(60, 32), nn.Linear(32, 32)

    def forward(self, ids):
        return self.fc(self.emb(ids)).mean(1)


class Unet(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = nn.Linear(16, 64), nn.Linear(32, 64), nn.Linear(64, 16)

    def forward(self, x, cond):
        return self.c(torch.relu(self.a(x) + self.b(cond)))


class Vae(nn.Module):
    def __init__(self):
        super().__init__()
        self.enc, self.dec = nn.Linear(48, 16), nn.Linear(16, 48)

    def forward(self, x):
        return self.dec(self.enc(x))


class Pipeline:
    def __init__(self, device):
        self.device = device
        self.text, self.unet, self.vae = TextEncoder(), Unet(), Vae()
        self.pool = Pool(device, capacity_params=7000)

    @torch.no_grad()
    def edit(self, image, prompt, steps=3):
        vae = self.pool.acquire("vae", self.vae)
        z = vae.enc(image.to(self.device))
        text = self.pool.acquire("text", self.text)
        cond = text(prompt.to(self.device))
        unet = self.pool.acquire("unet", self.unet)
        for _ in range(steps):
            z = z - 0.1 * unet(z, cond)
        return vae.dec(z).cpu()


pipe = Pipeline("cuda:0")
out = pipe.edit(torch.randn(2, 48), torch.randint(0, 60, (2, 6)))
print(out.shape)
