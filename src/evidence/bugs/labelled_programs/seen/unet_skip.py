# cause: block-split-across-devices
# guilty: skip
import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(12)


def stage(a, b):
    return nn.Sequential(nn.Conv2d(a, b, 3, padding=1), nn.GroupNorm(2, b), nn.SiLU())


class SmallUNet(nn.Module):
    """Too large for one card at full size: the way down on one GPU, the way up on the other."""

    def __init__(self, width=8):
        super().__init__()
        self.down = nn.ModuleList([stage(1, width), stage(width, 2 * width)]).to("cuda:0")
        self.bottom = stage(2 * width, 4 * width).to("cuda:1")
        self.up = nn.ModuleList([stage(6 * width, 2 * width), stage(3 * width, width)]).to("cuda:1")
        self.last = nn.Conv2d(width, 1, 1).to("cuda:1")

    def forward(self, x):
        kept = []
        for part in self.down:
            x = part(x)
            kept.append(x)
            x = F.max_pool2d(x, 2)
        x = self.bottom(x.to("cuda:1"))
        for part in self.up:
            skip = kept.pop()
            x = F.interpolate(x, scale_factor=2.0, mode="nearest")
            x = torch.cat([x, skip], dim=1)
            x = part(x)
        return self.last(x)


net = SmallUNet()
opt = torch.optim.Adam(net.parameters(), lr=1e-3)
for step in range(2):
    image = torch.rand(2, 1, 16, 16)
    wanted = (image > 0.5).float().to("cuda:1")
    loss = F.binary_cross_entropy_with_logits(net(image.to("cuda:0")), wanted)
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(step, loss.item())
