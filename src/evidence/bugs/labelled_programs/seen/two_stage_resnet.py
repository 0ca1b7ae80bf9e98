# cause: loss-or-label-on-other-device
# guilty: target[:, None] (target)
# Model parallel by hand: stem and first stage on GPU 0, the rest on GPU 1.
import torch
from torch import nn


class Residual(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.f = nn.Sequential(nn.Conv2d(c, c, 3, padding=1), nn.BatchNorm2d(c), nn.ReLU(), nn.Conv2d(c, c, 3, padding=1))

    def forward(self, x):
        return torch.relu(x + self.f(x))


class SplitNet(nn.Module):
    def __init__(self, classes=5, first="cuda:0", second="cuda:1"):
        super().__init__()
        self.first, self.second = torch.device(first), torch.device(second)
        self.stage1 = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), Residual(8)).to(self.first)
        self.stage2 = nn.Sequential(nn.Conv2d(8, 16, 3, stride=2, padding=1), Residual(16)).to(self.second)
        self.fc = nn.Linear(16, classes).to(self.second)

    def forward(self, x):
        x = self.stage1(x.to(self.first))
        x = self.stage2(x.to(self.second))
        return self.fc(x.mean(dim=(2, 3)))


def label_smoothing_loss(logits, target, eps=0.1):
    logp = logits.log_softmax(dim=-1)
    nll = -logp.gather(1, target[:, None]).squeeze(1)
    smooth = -logp.mean(dim=-1)
    return ((1 - eps) * nll + eps * smooth).mean()


def train_step(model, optim, images, labels):
    images = images.to(model.first)
    labels = labels.to(model.first)
    optim.zero_grad()
    out = model(images)
    loss = label_smoothing_loss(out, labels)
    loss.backward()
    optim.step()
    with torch.no_grad():
        hits = (out.argmax(1).cpu() == labels.cpu()).float().mean()
    return loss.item(), hits.item()


torch.manual_seed(1)
model = SplitNet()
optim = torch.optim.Adam(model.parameters(), lr=1e-3)
for step in range(3):
    x, y = torch.randn(4, 3, 8, 8), torch.randint(0, 5, (4,))
    print(step, *train_step(model, optim, x, y))
