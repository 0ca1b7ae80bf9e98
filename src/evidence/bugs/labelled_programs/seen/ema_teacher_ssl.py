# cause: optimizer-state-on-other-device|module-left-on-other-device
# guilty: s (self.shadow or self.shadow.parameters())
import copy
import torch
import torch.nn as nn


class EMA:
    def __init__(self, model, decay=0.995):
        self.decay = decay
        self.shadow = copy.deepcopy(model).eval()
        self.shadow.requires_grad_(False)

    @torch.no_grad()
    def update(self, model):
        for s, p in zip(self.shadow.parameters(), model.parameters()):
            s.mul_(self.decay).add_(p, alpha=1 - self.decay)


def encoder():
    return nn.Sequential(nn.Linear(50, 100), nn.LayerNorm(100), nn.GELU(), nn.Linear(100, 16))


def views(x):
    return x + 0.1 * torch.randn_like(x), x * (torch.rand_like(x) > 0.2)


def main():
    device = torch.device("cuda:0")
    net = encoder()
    ema = EMA(net)
    net = net.to(device)
    predictor = nn.Linear(16, 16).to(device)
    opt = torch.optim.AdamW(list(net.parameters()) + list(predictor.parameters()), lr=1e-3)
    for step in range(4):
        a, b = views(torch.randn(32, 50, device=device))
        za, zb = predictor(net(a)), net(b).detach()
        loss = 2 - 2 * nn.functional.cosine_similarity(za, zb).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        ema.update(net)
        print(step, round(loss.item(), 4))
    torch.save(ema.shadow.state_dict(), "ema.pt")


main()
