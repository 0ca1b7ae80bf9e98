# cause: block-split-across-devices
# guilty: fake
import torch
import torch.nn as nn

CONFIG = {
    "latent": 6,
    "generator": {"device": "cuda:0", "lr": 1e-3},
    "critic": {"device": "cuda:1", "lr": 1e-3},
    "batch": 8,
}


def mlp(*sizes, last=None):
    parts = []
    for a, b in zip(sizes, sizes[1:]):
        parts += [nn.Linear(a, b), nn.LeakyReLU(0.2)]
    parts = parts[:-1]
    if last is not None:
        parts.append(last)
    return nn.Sequential(*parts)


def build(cfg):
    g = mlp(cfg["latent"], 16, 12, last=nn.Tanh()).to(cfg["generator"]["device"])
    d = mlp(12, 16, 1).to(cfg["critic"]["device"])
    return g, d


def run(cfg):
    g, d = build(cfg)
    og = torch.optim.Adam(g.parameters(), cfg["generator"]["lr"])
    od = torch.optim.Adam(d.parameters(), cfg["critic"]["lr"])
    for step in range(2):
        real = torch.rand(cfg["batch"], 12, device=cfg["critic"]["device"])
        z = torch.randn(cfg["batch"], cfg["latent"], device=cfg["generator"]["device"])
        fake = g(z)
        snap = fake.detach().to(cfg["critic"]["device"])
        loss_d = d(snap).mean() - d(real).mean()
        od.zero_grad()
        loss_d.backward()
        od.step()
        loss_g = -d(fake).mean()
        og.zero_grad()
        loss_g.backward()
        og.step()
        print(step, loss_d.item(), loss_g.item())


run(CONFIG)
