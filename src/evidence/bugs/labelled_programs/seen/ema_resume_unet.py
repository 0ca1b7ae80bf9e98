# cause: optimizer-state-on-other-device
# guilty: s_param (self.shadow_params)
"""Toy unconditional denoiser with an exponential moving average of the weights."""
import os
import tempfile

import torch
from torch import nn


class EMAModel:
    def __init__(self, parameters, decay=0.995):
        self.shadow_params = [p.detach().clone() for p in parameters]
        self.decay = decay
        self.optimization_step = 0

    @torch.no_grad()
    def step(self, parameters):
        self.optimization_step += 1
        decay = min(self.decay, (1 + self.optimization_step) / (10 + self.optimization_step))
        one_minus_decay = 1.0 - decay
        for s_param, param in zip(self.shadow_params, parameters):
            s_param.sub_(one_minus_decay * (s_param - param))

    def copy_to(self, parameters):
        for s_param, param in zip(self.shadow_params, parameters):
            param.data.copy_(s_param)

    def state_dict(self):
        return {
            "decay": self.decay,
            "optimization_step": self.optimization_step,
            "shadow_params": self.shadow_params,
        }

    def load_state_dict(self, state):
        self.decay = state["decay"]
        self.optimization_step = state["optimization_step"]
        self.shadow_params = state["shadow_params"]


class TinyDenoiser(nn.Module):
    def __init__(self, channels=16):
        super().__init__()
        self.inp = nn.Conv2d(3, channels, 3, padding=1)
        self.mid = nn.Conv2d(channels, channels, 3, padding=1)
        self.out = nn.Conv2d(channels, 3, 3, padding=1)

    def forward(self, x):
        h = torch.relu(self.inp(x))
        return self.out(torch.relu(self.mid(h)) + h)


def snapshot(path, model, ema, optimizer, epoch):
    torch.save(
        {"model": model.state_dict(), "ema": ema.state_dict(), "opt": optimizer.state_dict(), "epoch": epoch}, path
    )


def restore(path, model, ema, optimizer):
    state = torch.load(path, map_location="cpu")
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["opt"])
    ema.load_state_dict(state["ema"])
    return state["epoch"] + 1


def run(epochs, path, device):
    model = TinyDenoiser().to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    ema = EMAModel(model.parameters())
    start = restore(path, model, ema, optimizer) if os.path.exists(path) else 0
    for epoch in range(start, start + epochs):
        clean = torch.rand(4, 3, 16, 16, device=device)
        noise = torch.randn_like(clean)
        loss = (model(clean + 0.3 * noise) - noise).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        ema.step(model.parameters())
        snapshot(path, model, ema, optimizer, epoch)
        print(f"epoch {epoch}: {loss.item():.4f}")


if __name__ == "__main__":
    ckpt = os.path.join(tempfile.mkdtemp(), "state.pt")
    dev = torch.device("cuda:0")
    run(2, ckpt, dev)
    run(2, ckpt, dev)
