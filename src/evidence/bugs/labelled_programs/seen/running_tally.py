# cause: metric-state-device
# guilty: self.both
import torch
from torch import nn


class Overlap:
    """Mean intersection over union, summed over batches."""

    def __init__(self, n):
        self.n = n
        self.reset()

    def reset(self):
        self.both = torch.zeros(self.n)
        self.any = torch.zeros(self.n)

    def update(self, a, b):
        hit = torch.nn.functional.one_hot(a, self.n).bool()
        ref = torch.nn.functional.one_hot(b, self.n).bool()
        self.both += (hit & ref).flatten(0, -2).sum(0)
        self.any += (hit | ref).flatten(0, -2).sum(0)

    def result(self):
        return (self.both / self.any.clamp(min=1)).mean().item()


def evaluate(net, batches, device):
    tally = Overlap(5)
    net.eval()
    with torch.no_grad():
        for img, ref in batches:
            a = net(img.to(device)).argmax(1)
            tally.update(a, ref.to(device))
    return tally.result()


net = nn.Conv2d(3, 5, 3, padding=1).to("cuda:1")
batches = [(torch.rand(2, 3, 8, 8), torch.randint(0, 5, (2, 8, 8))) for _ in range(3)]
print(evaluate(net, batches, "cuda:1"))
