# cause: embedding-streams-on-different-devices|loss-or-label-on-other-device|hard-coded-device
# guilty: goal[k] (goal["high"] or gram(f))
import torch
import torch.nn as nn


class Features(nn.Module):
    def __init__(self, split=("cuda:0", "cuda:1")):
        super().__init__()
        self.low = nn.Sequential(nn.Conv2d(3, 6, 3, padding=1), nn.ReLU()).to(split[0])
        self.high = nn.Sequential(nn.Conv2d(6, 8, 3, padding=1), nn.ReLU()).to(split[1])
        self.split = split

    def forward(self, x):
        return self.high(self.low(x).to(self.split[1]))


class Tap:
    def __init__(self, **modules):
        self.found = {}
        for name, m in modules.items():
            m.register_forward_hook(self.make(name))

    def make(self, name):
        def hook(module, args, out):
            self.found[name] = out
        return hook


def gram(f):
    f = f.flatten(2)
    return f @ f.transpose(1, 2) / f.size(-1)


def main():
    torch.manual_seed(0)
    net = Features().requires_grad_(False)
    tap = Tap(low=net.low, high=net.high)
    style = torch.rand(1, 3, 12, 12, device="cuda:0")
    net(style)
    goal = {k: gram(v).to(style.device) for k, v in tap.found.items()}
    picture = torch.rand(1, 3, 12, 12, device="cuda:0", requires_grad=True)
    opt = torch.optim.Adam([picture], 0.05)
    for _ in range(3):
        net(picture)
        loss = 0.0
        for k, f in tap.found.items():
            loss = loss + (gram(f) - goal[k]).pow(2).sum().to(picture.device)
        opt.zero_grad()
        loss.backward()
        opt.step()
    print(loss.item())


if __name__ == "__main__":
    main()
