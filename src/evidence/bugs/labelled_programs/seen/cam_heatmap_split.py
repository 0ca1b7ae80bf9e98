# cause: tensor-created-on-wrong-device|block-split-across-devices|lm-head-or-tied-weight-split
# guilty: maps (self.seen["maps"], weight)
# line: 48
# repair: in HeatMapper.explain bring both together: maps = self.seen["maps"].to(weight.device) OR weight.to(maps.device)
"""Class activation maps for a road-sign classifier cut into two stages."""
import torch
from torch import nn
import torch.nn.functional as F


def conv(cin, cout, stride):
    return nn.Sequential(nn.Conv2d(cin, cout, 3, stride, 1), nn.BatchNorm2d(cout), nn.ReLU())


class SignNet(nn.Module):
    def __init__(self, classes=6, trunk_card="cuda:0", head_card="cuda:1"):
        super().__init__()
        self.trunk_card, self.head_card = trunk_card, head_card
        self.trunk = nn.Sequential(conv(3, 8, 2), conv(8, 16, 2), conv(16, 24, 1)).to(trunk_card)
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(24, classes).to(head_card)

    def forward(self, x):
        h = self.trunk(x.to(self.trunk_card))
        return self.fc(self.pool(h).flatten(1).to(self.head_card))


class HeatMapper:
    def __init__(self, net, layer):
        self.net = net
        self.seen = {}
        self.handle = layer.register_forward_hook(self.remember)

    def remember(self, module, args, output):
        self.seen["maps"] = output.detach()

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.handle.remove()

    @torch.no_grad()
    def explain(self, images):
        top = self.net(images).argmax(1)
        weight = self.net.fc.weight[top]
        maps = self.seen["maps"]
        heat = torch.einsum("bc,bchw->bhw", weight, maps)
        heat = F.interpolate(heat[:, None], size=images.shape[-2:], mode="bilinear")[:, 0]
        low = heat.amin((1, 2), keepdim=True)
        return top.cpu(), ((heat - low) / (heat.amax((1, 2), keepdim=True) - low + 1e-6)).cpu()


if __name__ == "__main__":
    torch.manual_seed(0)
    net = SignNet().eval()
    with HeatMapper(net, net.trunk[-1]) as mapper:
        for _ in range(2):
            labels, heat = mapper.explain(torch.randn(4, 3, 32, 32))
            print(labels.tolist(), tuple(heat.shape), float(heat.mean()))
