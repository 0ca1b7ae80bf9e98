# cause: cross-device-operands
# guilty: ?
import torch
from torch import nn

GPUS = [torch.device("cuda:0"), torch.device("cuda:1")]


def member(seed, device):
    torch.manual_seed(seed)
    return nn.Sequential(
        nn.Linear(16, 48), nn.ReLU(), nn.Dropout(0.1),
        nn.Linear(48, 48), nn.ReLU(), nn.Linear(48, 5)).to(device)


def fetch(n):
    x = torch.randn(n, 16)
    return x, x[:, :5].argmax(1)


def fit(net, device, steps=15):
    opt = torch.optim.AdamW(net.parameters(), lr=3e-3)
    for _ in range(steps):
        x, y = fetch(64)
        x, y = x.to(device), y.to(device)
        loss = nn.functional.cross_entropy(net(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
    return loss.item()


class Ensemble:
    def __init__(self, nets, devices, temperature=1.5):
        self.nets = [n.eval() for n in nets]
        self.devices = devices
        self.temperature = temperature

    @torch.no_grad()
    def member_probs(self, x):
        return [(net(x.to(d)) / self.temperature).softmax(-1) for net, d in zip(self.nets, self.devices)]

    def predict(self, x):
        probs = self.member_probs(x)
        mean = 0.5 * (probs[0] + probs[1])
        disagreement = (probs[0] - mean).abs().sum(-1)
        return mean.argmax(-1).cpu(), disagreement.cpu()


if __name__ == "__main__":
    nets = []
    for seed, gpu in enumerate(GPUS):
        net = member(seed, gpu)
        print("member", seed, fit(net, gpu))
        nets.append(net)
    x, y = fetch(200)
    pred, spread = Ensemble(nets, GPUS).predict(x)
    print("accuracy", (pred == y).float().mean().item(), "spread", spread.mean().item())
