# cause: optimizer-state-on-other-device
# guilty: avg
import copy

import torch
from torch import nn
import torch.nn.functional as F


class EMA:
    def __init__(self, model, decay=0.999):
        self.decay = decay
        self.shadow = {n: p.detach().clone() for n, p in model.named_parameters()}

    @torch.no_grad()
    def update(self, model):
        for name, param in model.named_parameters():
            avg = self.shadow[name]
            avg.lerp_(param, 1 - self.decay)

    def copy_to(self, model):
        twin = copy.deepcopy(model)
        twin.load_state_dict(self.shadow, strict=False)
        return twin


class Autoencoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.enc = nn.Sequential(nn.Conv1d(1, 8, 7, 2, 3), nn.ELU(), nn.Conv1d(8, 4, 7, 2, 3))
        self.dec = nn.Sequential(nn.ConvTranspose1d(4, 8, 4, 2, 1), nn.ELU(), nn.ConvTranspose1d(8, 1, 4, 2, 1))

    def forward(self, wave):
        return self.dec(self.enc(wave))


def main():
    torch.manual_seed(2)
    model = Autoencoder()
    ema = EMA(model)
    model = model.to("cuda:0")
    opt = torch.optim.Adam(model.parameters(), 1e-3)
    for step in range(4):
        wave = torch.randn(4, 1, 64, device="cuda:0")
        loss = F.l1_loss(model(wave), wave)
        opt.zero_grad()
        loss.backward()
        opt.step()
        ema.update(model)
    ema.copy_to(model)


if __name__ == "__main__":
    main()
