# cause: input-not-on-embedding-device|module-left-on-other-device
# guilty: batch (sample() or ids or mat1)
"""A function that gives a batch names the GPU by its kind; the model was put on the second one by main."""
import torch
from torch import nn


def sample():
    return torch.randn(4, 8).to("cuda")


def main():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 1))
    model.to("cuda:1")
    for _ in range(2):
        batch = sample()
        print(model(batch).mean().item())


main()
