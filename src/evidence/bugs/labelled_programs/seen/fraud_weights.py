# cause: loss-or-label-on-other-device|tensor-created-on-wrong-device
# guilty: weight (class_weights or w)
"""Fraud detection with balanced class weights."""
from functools import partial

import torch
import torch.nn.functional as F
from torch import nn


def balanced_weights(labels, n_classes):
    counts = torch.bincount(labels, minlength=n_classes).float()
    return counts.sum() / (n_classes * counts.clamp(min=1))


def weighted_focal(logits, target, weight, gamma=2.0):
    logp = F.log_softmax(logits, dim=1)
    ce = F.nll_loss(logp, target, weight=weight, reduction="none")
    pt = logp.gather(1, target[:, None]).squeeze(1).exp()
    return ((1 - pt) ** gamma * ce).mean()


class TabNetish(nn.Module):
    def __init__(self, n_num, cards, d=16):
        super().__init__()
        self.cats = nn.ModuleList(nn.Embedding(c, d) for c in cards)
        self.mask = nn.Linear(n_num, n_num)
        self.mlp = nn.Sequential(nn.Linear(n_num + d * len(cards), 64), nn.ReLU(), nn.Linear(64, 2))

    def forward(self, num, cat):
        num = num * self.mask(num).softmax(-1)
        return self.mlp(torch.cat([num, *(e(c) for e, c in zip(self.cats, cat.T))], 1))


def run(device):
    num, cat = torch.randn(400, 9), torch.randint(0, 8, (400, 3))
    y = (torch.rand(400) < 0.1).long()
    criterion = partial(weighted_focal, weight=balanced_weights(y, 2))
    model = TabNetish(9, (8, 8, 8)).to(device)
    opt = torch.optim.Adam(model.parameters())
    data = torch.utils.data.TensorDataset(num, cat, y)
    for batch in torch.utils.data.DataLoader(data, 100, shuffle=True):
        n, c, t = (z.to(device) for z in batch)
        loss = criterion(model(n, c), t)
        opt.zero_grad()
        loss.backward()
        opt.step()
    return float(loss)


print(run("cuda:0"))
