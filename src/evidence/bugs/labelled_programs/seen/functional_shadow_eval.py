# cause: optimizer-state-on-other-device|checkpoint-map-location|module-left-on-other-device
# guilty: self.inp (self.inp.weight, shadow, self.ema.shadow)
# line: 39
# repair: in Shadow.load_state_dict move each tensor to the device of its parameter: self.shadow[k] = v.to(self.shadow[k].device) (or self.shadow[k].copy_(v)) OR load the checkpoint with map_location=device in Trainer.resume
import io

import torch
import torch.nn as nn
from torch.func import functional_call


class Shadow:
    """Exponential moving average of the parameters, evaluated with functional_call."""

    def __init__(self, model, decay=0.99):
        self.decay = decay
        self.shadow = {k: p.detach().clone() for k, p in model.named_parameters()}

    @torch.no_grad()
    def update(self, model):
        for k, p in model.named_parameters():
            self.shadow[k].lerp_(p, 1 - self.decay)

    def state_dict(self):
        return dict(self.shadow)

    def load_state_dict(self, state):
        self.shadow = {k: state[k] for k in self.shadow}


class TabularNet(nn.Module):
    def __init__(self, n_in=12, width=32, n_out=1):
        super().__init__()
        self.inp = nn.Linear(n_in, width)
        self.res = nn.Linear(width, width)
        self.out = nn.Linear(width, n_out)

    def forward(self, x):
        h = torch.relu(self.inp(x))
        h = h + torch.relu(self.res(h))
        return self.out(h).squeeze(-1)


class Trainer:
    def __init__(self, device):
        self.device = torch.device(device)
        self.model = TabularNet().to(self.device)
        self.ema = Shadow(self.model)
        self.opt = torch.optim.Adam(self.model.parameters(), lr=1e-3)
        self.epoch = 0

    def batch(self):
        x = torch.randn(64, 12, device=self.device)
        return x, x[:, :3].prod(1)

    def train_epoch(self, steps=4):
        self.model.train()
        for _ in range(steps):
            x, y = self.batch()
            loss = (self.model(x) - y).pow(2).mean()
            self.opt.zero_grad()
            loss.backward()
            self.opt.step()
            self.ema.update(self.model)
        self.epoch += 1

    @torch.no_grad()
    def evaluate(self):
        self.model.eval()
        x, y = self.batch()
        guess = functional_call(self.model, self.ema.shadow, (x,))
        return (guess - y).abs().mean().item()

    def save(self, sink):
        torch.save({"model": self.model.state_dict(), "ema": self.ema.state_dict(),
                    "opt": self.opt.state_dict(), "epoch": self.epoch}, sink)

    def resume(self, source):
        ckpt = torch.load(source, map_location="cpu")
        self.model.load_state_dict(ckpt["model"])
        self.opt.load_state_dict(ckpt["opt"])
        self.ema.load_state_dict(ckpt["ema"])
        self.epoch = ckpt["epoch"]


if __name__ == "__main__":
    torch.manual_seed(0)
    first = Trainer("cuda:0")
    first.train_epoch()
    print("fresh", first.evaluate())
    buffer = io.BytesIO()
    first.save(buffer)
    buffer.seek(0)
    second = Trainer("cuda:0")
    second.resume(buffer)
    print("resumed at", second.epoch, second.evaluate())
    second.train_epoch()
