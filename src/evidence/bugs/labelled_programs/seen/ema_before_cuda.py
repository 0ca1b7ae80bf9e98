# cause: optimizer-built-before-move|optimizer-state-on-other-device|module-left-on-other-device
# guilty: self.shadow[name] (shadow or self.shadow)
"""Satellite tile segmentation with averaged weights."""
import torch
from torch import nn

CONFIG = {"lr": 3e-4, "decay": 0.999, "steps": 3, "gpu": 0, "classes": 6}


class AveragedWeights:
    def __init__(self, net, decay):
        self.decay = decay
        self.shadow = {name: p.detach().clone() for name, p in net.named_parameters() if p.requires_grad}
        self.backup = {}

    @torch.no_grad()
    def update(self, net):
        for name, p in net.named_parameters():
            if p.requires_grad:
                self.shadow[name].mul_(self.decay).add_(p, alpha=1 - self.decay)

    def apply_shadow(self, net):
        for name, p in net.named_parameters():
            if p.requires_grad:
                self.backup[name] = p.data
                p.data = self.shadow[name]

    def restore(self, net):
        for name, p in net.named_parameters():
            if name in self.backup:
                p.data = self.backup[name]
        self.backup = {}


def make_net(classes):
    return nn.Sequential(
        nn.Conv2d(4, 24, 3, padding=1), nn.GroupNorm(4, 24), nn.SiLU(),
        nn.Conv2d(24, 24, 3, padding=1), nn.SiLU(), nn.Conv2d(24, classes, 1),
    )


class Trainer:
    def __init__(self, cfg):
        self.cfg = cfg
        self.net = make_net(cfg["classes"])
        self.ema = AveragedWeights(self.net, cfg["decay"])
        self.device = torch.device("cuda", cfg["gpu"])
        self.net.to(self.device)
        self.opt = torch.optim.AdamW(self.net.parameters(), cfg["lr"])

    def fit(self):
        for _ in range(self.cfg["steps"]):
            tile = torch.randn(2, 4, 32, 32, device=self.device)
            mask = torch.randint(0, self.cfg["classes"], (2, 32, 32), device=self.device)
            loss = nn.functional.cross_entropy(self.net(tile), mask)
            self.opt.zero_grad()
            loss.backward()
            self.opt.step()
            self.ema.update(self.net)
        self.ema.apply_shadow(self.net)
        with torch.no_grad():
            out = self.net(tile).argmax(1).float().mean().item()
        self.ema.restore(self.net)
        return out


print(Trainer(CONFIG).fit())
