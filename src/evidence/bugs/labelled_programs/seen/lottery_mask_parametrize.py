# cause: tensor-created-on-wrong-device
# guilty: self.mask
# line: 19
# repair: in MaskedWeight.__init__: self.register_buffer("mask", mask) in place of the plain attribute, so that it follows the layer when the stages are placed OR call prune_by_magnitude after the stages are placed
import copy

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.utils import parametrize


class MaskedWeight(nn.Module):
    def __init__(self, mask):
        super().__init__()
        self.mask = mask

    def forward(self, weight):
        return weight * self.mask


def magnitude_masks(model, sparsity):
    masks = {}
    for name, module in model.named_modules():
        if isinstance(module, (nn.Linear, nn.Conv2d)):
            w = module.weight.detach().abs()
            k = max(1, int(w.numel() * sparsity))
            threshold = w.flatten().kthvalue(k).values
            masks[name] = (w > threshold).float()
    return masks


def prune_by_magnitude(model, sparsity):
    masks = magnitude_masks(model, sparsity)
    for name, module in list(model.named_modules()):
        if name in masks:
            parametrize.register_parametrization(module, "weight", MaskedWeight(masks[name]))
    return model


class TwoStageNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.front = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
                                   nn.Conv2d(8, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2))
        self.back = nn.Sequential(nn.Flatten(), nn.Linear(16 * 16, 64), nn.ReLU(), nn.Linear(64, 10))

    def place(self, first, second):
        self.front.to(first)
        self.back.to(second)
        self.cards = (first, second)
        return self

    def forward(self, x):
        x = self.front(x.to(self.cards[0]))
        return self.back(x.to(self.cards[1]))


def train(model, steps, seed):
    g = torch.Generator().manual_seed(seed)
    opt = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    for _ in range(steps):
        x = torch.randn(8, 1, 16, 16, generator=g)
        y = torch.randint(0, 10, (8,), generator=g)
        out = model(x)
        loss = F.cross_entropy(out, y.to(out.device))
        opt.zero_grad()
        loss.backward()
        opt.step()
    return loss.item()


torch.manual_seed(0)
origin = TwoStageNet()
dense = copy.deepcopy(origin).place("cuda:0", "cuda:1")
print("dense", train(dense, 3, seed=1))

ticket = copy.deepcopy(origin)
ticket.load_state_dict({k: v.cpu() for k, v in dense.state_dict().items()})
ticket = prune_by_magnitude(ticket, sparsity=0.5).place("cuda:0", "cuda:1")
print("ticket", train(ticket, 3, seed=2))
