# cause: device-ordinal-out-of-range
# guilty: ?
"""Evolution strategies: candidates are scored on a card each."""
import concurrent.futures
import copy

import torch
from torch import nn

WORKERS = 3


class Policy(nn.Module):
    def __init__(self, obs=8, act=2):
        super().__init__()
        self.f = nn.Sequential(nn.Linear(obs, 32), nn.Tanh(), nn.Linear(32, act))

    def forward(self, o):
        return self.f(o)


def perturb(policy, sigma):
    child = copy.deepcopy(policy)
    with torch.no_grad():
        for p in child.parameters():
            p.add_(torch.randn_like(p), alpha=sigma)
    return child


def score(policy, worker):
    device = torch.device(f"cuda:{worker}")
    policy = policy.to(device)
    obs = torch.randn(64, 8, device=device)
    with torch.no_grad():
        return -policy(obs).square().mean().item()


def generation(parent, sigma=0.1):
    children = [perturb(parent, sigma) for _ in range(WORKERS)]
    with concurrent.futures.ThreadPoolExecutor(WORKERS) as pool:
        scores = list(pool.map(score, children, range(WORKERS)))
    return children[scores.index(max(scores))]


best = Policy()
for g in range(2):
    best = generation(best).cpu()
