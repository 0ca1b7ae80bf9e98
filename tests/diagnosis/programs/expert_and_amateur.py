# cause: generation-helper-on-wrong-device
# guilty: weak
"""A loop writes with the difference of two models that are on two GPUs."""

import torch
from torch import nn


def language_model(width, device):
    return nn.Sequential(nn.Embedding(40, width), nn.Linear(width, 40)).to(device).eval()


def next_scores(model, ids):
    device = next(model.parameters()).device
    return model(ids.to(device))[:, -1].log_softmax(-1)


@torch.no_grad()
def write(expert, amateur, ids, steps=4):
    for _ in range(steps):
        strong = next_scores(expert, ids)
        weak = next_scores(amateur, ids)
        contrast = strong - 0.5 * weak
        ids = torch.cat([ids, contrast.argmax(-1, keepdim=True).to(ids.device)], 1)
    return ids


expert, amateur = language_model(32, "cuda:1"), language_model(8, "cuda:0")
print(write(expert, amateur, torch.tensor([[3, 4], [5, 6]], device="cuda:0")).shape)
