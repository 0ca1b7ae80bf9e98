# cause: loss-or-label-on-other-device
# guilty: self.alpha
import torch
from torch import nn
import torch.nn.functional as F


class FocalLoss:
    def __init__(self, counts, gamma=2.0, beta=0.99):
        eff = (1 - beta ** counts.float()) / (1 - beta)
        self.alpha = (1 / eff) / (1 / eff).sum() * len(counts)
        self.gamma = gamma

    def __call__(self, logits, y):
        logp = F.log_softmax(logits, dim=1)
        onehot = F.one_hot(y, logits.size(1)).movedim(-1, 1)
        pt = (logp.exp() * onehot).sum(1, keepdim=True)
        per_class = -((1 - pt) ** self.gamma) * logp * onehot
        return torch.einsum("nchw,c->nhw", per_class, self.alpha).mean()


def segmenter(classes):
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(),
        nn.Conv2d(16, 16, 3, padding=2, dilation=2), nn.ReLU(),
        nn.Conv2d(16, classes, 1),
    )


def main(device="cuda"):
    torch.manual_seed(7)
    scans = torch.rand(6, 1, 24, 24)
    masks = (scans[:, 0] * 4).long().clamp(max=3)
    criterion = FocalLoss(torch.bincount(masks.flatten(), minlength=4))
    net = segmenter(4).to(device)
    opt = torch.optim.RMSprop(net.parameters(), lr=1e-3)
    for i in range(0, 6, 2):
        x, y = scans[i:i + 2].to(device), masks[i:i + 2].to(device)
        loss = criterion(net(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        print(round(loss.item(), 4))


main()
