from torch import nn


class Balanced:
    def __init__(self, weights):
        self.weights = weights

    def __call__(self, logits, target):
        each = nn.functional.cross_entropy(logits, target, reduction="none")
        return (each * self.weights[target.cpu()]).mean()
