# cause: module-left-on-other-device|hard-coded-device
# guilty: value (state, ingredient.state_dict)
# line: 56
# repair: in GreedySoup.blend write value.to(self.soup[name].device) OR keep all ingredients and the soup on one device (finetune returns {k: v.cpu() ...})
"""Greedy model soup: fine-tune the same net with several recipes, average what helps."""
import copy
import itertools

import torch
import torch.nn as nn
import torch.nn.functional as F

CARDS = itertools.cycle(["cuda:0", "cuda:1"])


def make_net():
    return nn.Sequential(nn.Linear(12, 32), nn.GELU(), nn.LayerNorm(32), nn.Linear(32, 4))


def make_split(n, seed):
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(n, 12, generator=g)
    return x, (x[:, :4] + x[:, 4:8]).argmax(1)


def accuracy(net, data):
    device = next(net.parameters()).device
    x, y = (t.to(device) for t in data)
    with torch.no_grad():
        return (net(x).argmax(1) == y).float().mean().item()


def finetune(base, recipe, data):
    """Each recipe goes to the next free card."""
    device = next(CARDS)
    net = copy.deepcopy(base).to(device)
    x, y = (t.to(device) for t in data)
    optimizer = torch.optim.AdamW(net.parameters(), **recipe)
    for _ in range(10):
        optimizer.zero_grad()
        F.cross_entropy(net(x), y).backward()
        optimizer.step()
    return net


class GreedySoup:
    def __init__(self, first, held_out):
        self.net = copy.deepcopy(first)
        self.soup = {k: v.clone() for k, v in first.state_dict().items()}
        self.held_out, self.count = held_out, 1
        self.best = accuracy(self.net, held_out)

    def blend(self, state):
        mixed = {}
        for name, value in state.items():
            mixed[name] = (self.soup[name] * self.count + value) / (self.count + 1)
        return mixed

    def try_add(self, ingredient):
        candidate = self.blend(ingredient.state_dict())
        self.net.load_state_dict(candidate)
        score = accuracy(self.net, self.held_out)
        if score >= self.best:
            self.soup, self.best, self.count = candidate, score, self.count + 1
        return score


if __name__ == "__main__":
    torch.manual_seed(0)
    recipes = [dict(lr=1e-2), dict(lr=3e-3), dict(lr=1e-2, weight_decay=0.1)]
    base, train = make_net(), make_split(256, 1)
    nets = [finetune(base, r, train) for r in recipes]
    soup = GreedySoup(nets[0], make_split(128, 2))
    for net in nets[1:]:
        print("with ingredient", soup.try_add(net), "best", soup.best)
