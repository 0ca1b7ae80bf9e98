# cause: weights-moved-away-by-manager|module-left-on-other-device
# guilty: old
# after: lucidrains/DALLE2-pytorch#87
import copy
from contextlib import contextmanager

import torch
from torch import nn

def calculate_ema(beta, old, new):
    if old is None:
        return new
    return old * beta + (1 - beta) * new

class EMA(nn.Module):
    def __init__(self, model, beta=0.99, update_every=1):
        super().__init__()
        self.beta, self.update_every = beta, update_every
        self.online_model = model
        self.ema_model = copy.deepcopy(model)
        self.calls = 0

    def update(self):
        self.calls += 1
        if self.calls % self.update_every == 0:
            self.update_moving_average(self.ema_model, self.online_model)

    @torch.no_grad()
    def update_moving_average(self, ma_model, current_model):
        for cur, ma in zip(current_model.parameters(), ma_model.parameters()):
            ma.data = calculate_ema(self.beta, ma.data, cur.data)

class DecoderTrainer:
    def __init__(self, unets, device):
        self.device = device
        self.unets = nn.ModuleList(unets).to(device)
        self.ema_unets = [EMA(u) for u in self.unets]
        self.optims = [torch.optim.AdamW(u.parameters(), lr=1e-3) for u in self.unets]

    @contextmanager
    def one_unet_in_gpu(self, index):
        nets = [e.ema_model for e in self.ema_unets]
        nets[index].to(self.device)
        yield nets[index]
        for net in nets:
            net.to("cpu")

    @torch.no_grad()
    def sample(self, n):
        image = torch.randn(n, 16, device=self.device)
        for i in range(len(self.unets)):
            with self.one_unet_in_gpu(i) as unet:
                image = unet(image)
        return image

    def step(self, batch, number):
        loss = (self.unets[number](batch) - batch).pow(2).mean()
        loss.backward()
        self.optims[number].step()
        self.optims[number].zero_grad()
        self.ema_unets[number].update()
        return loss.item()

if __name__ == "__main__":
    make = lambda: nn.Sequential(nn.Linear(16, 32), nn.SiLU(), nn.Linear(32, 16))
    trainer = DecoderTrainer([make(), make()], device="cuda")
    for epoch in range(2):
        for it in range(3):
            loss = trainer.step(torch.randn(8, 16).to(trainer.device), number=it % 2)
        print(epoch, loss, trainer.sample(2).shape)
