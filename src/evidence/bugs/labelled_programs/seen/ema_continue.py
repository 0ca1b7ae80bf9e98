# cause: optimizer-state-on-other-device
# guilty: self.shadow[n] (self.shadow)
import io
import torch
import torch.nn as nn


class EMA:
    def __init__(self, model, decay=0.99):
        self.decay = decay
        self.shadow = {n: p.detach().clone() for n, p in model.named_parameters()}

    @torch.no_grad()
    def update(self, model):
        for n, p in model.named_parameters():
            self.shadow[n].mul_(self.decay).add_(p.detach(), alpha=1 - self.decay)

    def state_dict(self):
        return {"decay": self.decay, "shadow": self.shadow}

    def load_state_dict(self, sd):
        self.decay = sd["decay"]
        self.shadow = sd["shadow"]


def train(model, ema, steps, device):
    opt = torch.optim.SGD(model.parameters(), lr=0.05)
    for _ in range(steps):
        x = torch.randn(32, 10, device=device)
        loss = (model(x).squeeze(1) - x.sum(1)).pow(2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        ema.update(model)
    return loss.item()


device = "cuda:1"
model = nn.Sequential(nn.Linear(10, 32), nn.Tanh(), nn.Linear(32, 1)).to(device)
ema = EMA(model)
print("first run", train(model, ema, 20, device))
ckpt = io.BytesIO()
torch.save({"model": model.state_dict(), "ema": ema.state_dict()}, ckpt)

ckpt.seek(0)
saved = torch.load(ckpt, map_location="cpu")
model2 = nn.Sequential(nn.Linear(10, 32), nn.Tanh(), nn.Linear(32, 1)).to(device)
model2.load_state_dict(saved["model"])
ema2 = EMA(model2)
ema2.load_state_dict(saved["ema"])
print("second run", train(model2, ema2, 20, device))
