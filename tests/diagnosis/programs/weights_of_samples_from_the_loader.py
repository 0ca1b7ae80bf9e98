# cause: extra-input-on-wrong-device|loss-or-label-on-other-device
# guilty: weights (batch["weights"])
"""Evaluation: what a loader made beside the images stays where those are; scores come from the other GPU."""
import torch
from torch import nn

stem, score = nn.Linear(6, 4).to("cuda:0"), nn.Linear(4, 2).to("cuda:1")


def batches(count, device):
    for _ in range(count):
        images = torch.randn(5, 6, device=device)
        yield {"images": images, "weights": torch.ones(len(images), device=images.device)}


def evaluate(count):
    total = 0.0
    with torch.no_grad():
        for batch in batches(count, torch.device("cuda:0")):
            weights = batch["weights"]
            scores = score(stem(batch["images"]).relu().to("cuda:1"))
            total += (scores[:, 1] * weights).sum().item()
    return total


print(evaluate(2))
