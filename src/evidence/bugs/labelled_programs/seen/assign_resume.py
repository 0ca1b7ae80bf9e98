# cause: checkpoint-map-location|module-left-on-other-device
# guilty: self.time.weight
import os
import tempfile
import torch
from torch import nn


class Mixer1d(nn.Module):
    def __init__(self, length, channels, hidden=32):
        super().__init__()
        self.time = nn.Linear(length, length)
        self.feat = nn.Sequential(nn.Linear(channels, hidden), nn.GELU(), nn.Linear(hidden, channels))

    def forward(self, x):
        x = x + self.time(x.transpose(1, 2)).transpose(1, 2)
        return x + self.feat(x)


def build(length=24, channels=4, blocks=2):
    return nn.Sequential(*[Mixer1d(length, channels) for _ in range(blocks)])


class Checkpointer:
    def __init__(self, folder):
        self.path = os.path.join(folder, "last.pt")

    def save(self, model, **extra):
        torch.save({"model": model.state_dict(), **extra}, self.path)

    def resume(self, model):
        blob = torch.load(self.path, map_location="cpu", mmap=True)
        model.load_state_dict(blob.pop("model"), assign=True)
        return blob


def sample(n, length=24, channels=4):
    phase = torch.rand(n, 1, channels) * 6.28
    t = torch.arange(2 * length).float()[None, :, None] / 6
    s = torch.sin(t + phase)
    return s[:, :length], s[:, length:]


def train(model, device, steps, start=0):
    opt = torch.optim.AdamW(model.parameters(), 2e-3)
    for i in range(start, start + steps):
        x, y = (t.to(device) for t in sample(16))
        loss = nn.functional.mse_loss(model(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
    print(f"step {i + 1}: {loss.item():.4f}")
    return i + 1


device = torch.device("cuda:0")
with tempfile.TemporaryDirectory() as tmp:
    keeper = Checkpointer(tmp)
    net = build().to(device)
    done = train(net, device, 5)
    keeper.save(net, step=done)

    again = build().to(device)
    info = keeper.resume(again)
    train(again, device, 5, start=info["step"])
