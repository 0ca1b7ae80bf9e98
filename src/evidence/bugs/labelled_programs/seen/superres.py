# cause: module-left-on-other-device
# guilty: loss_net
import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(16)
device = torch.device("cuda:0")


def build_loss_net():
    net = nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(),
        nn.Conv2d(8, 16, 3, stride=2, padding=1), nn.ReLU(),
    )
    for p in net.parameters():
        p.requires_grad_(False)
    return net.eval()


class Upscale(nn.Module):
    def __init__(self, width=12, by=2):
        super().__init__()
        self.first = nn.Conv2d(3, width, 3, padding=1)
        self.mid = nn.Conv2d(width, width, 3, padding=1)
        self.last = nn.Conv2d(width, 3 * by * by, 3, padding=1)
        self.shuffle = nn.PixelShuffle(by)

    def forward(self, x):
        h = F.relu(self.first(x))
        h = h + F.relu(self.mid(h))
        return self.shuffle(self.last(h))


net = Upscale().to(device)
loss_net = build_loss_net()
opt = torch.optim.Adam(net.parameters(), lr=1e-3)

for step in range(3):
    target = torch.rand(2, 3, 16, 16, device=device)
    made = net(F.avg_pool2d(target, 2))
    pixel_loss = F.l1_loss(made, target)
    deep_loss = F.mse_loss(loss_net(made), loss_net(target))
    loss = pixel_loss + 0.1 * deep_loss
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(step, pixel_loss.item(), deep_loss.item())
