# cause: input-not-on-embedding-device|cache-or-beam-state-on-wrong-device
# guilty: z (tap.feats)
import torch
import torch.nn as nn


class Backbone(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 16, 3, 2, 1), nn.ReLU())
        self.layer1 = nn.Sequential(nn.Conv2d(16, 32, 3, 2, 1), nn.ReLU())
        self.layer2 = nn.Sequential(nn.Conv2d(32, 64, 3, 2, 1), nn.ReLU())

    def forward(self, x):
        return self.layer2(self.layer1(self.stem(x)))


class Tap:
    def __init__(self, net, names):
        self.feats = {}
        for n in names:
            net.get_submodule(n).register_forward_hook(self.make(n))

    def make(self, name):
        def hook(module, args, output):
            self.feats[name] = output.detach().mean((2, 3)).cpu()
        return hook


def embed(net, tap, x):
    net(x)
    return torch.cat([tap.feats[n] for n in sorted(tap.feats)], 1)


device = torch.device("cuda:0")
net = Backbone().eval().to(device)
tap = Tap(net, ["layer1", "layer2"])
probe = nn.Linear(96, 3).to(device)
optim = torch.optim.Adam(probe.parameters(), lr=1e-3)
for step in range(4):
    x = torch.rand(8, 3, 32, 32, device=device)
    y = torch.randint(0, 3, (8,), device=device)
    with torch.no_grad():
        z = embed(net, tap, x)
    loss = nn.functional.cross_entropy(probe(z), y)
    optim.zero_grad()
    loss.backward()
    optim.step()
print(loss.item())
