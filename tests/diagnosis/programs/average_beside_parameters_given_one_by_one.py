# cause: optimizer-state-on-other-device|checkpoint-map-location
# guilty: mean (self.means)
"""A mean of the weights comes back from a file on the host; the weights are handed in one by one."""
import io

import torch
from torch import nn


class Means:
    def __init__(self, weights):
        self.means = [weight.detach().clone() for weight in weights]
        self.turns = 0

    @torch.no_grad()
    def follow(self, weights):
        self.turns += 1
        for mean, weight in zip(self.means, weights):
            mean.add_((weight - mean) / self.turns)

    def resume(self, file):
        self.means = torch.load(file, map_location="cpu")


def main():
    model = nn.Linear(5, 2).to("cuda:0")
    means = Means(model.parameters())
    means.follow(model.parameters())
    file = io.BytesIO()
    torch.save(means.means, file)
    file.seek(0)
    means.resume(file)
    means.follow(weight for weight in model.parameters())
    assert all(mean.any() for mean in means.means)


main()
