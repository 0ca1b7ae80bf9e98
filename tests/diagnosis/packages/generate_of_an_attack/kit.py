import torch
from torch import nn


class Attack:
    def __init__(self, model, decay=0.9, steps=2):
        self.model, self.decay, self.steps = model, decay, steps

    def generate(self, x, y):
        momentum = torch.zeros(x.shape)
        adversarial = x.clone()
        for _ in range(self.steps):
            adversarial, momentum = self._step(adversarial, y, momentum)
        return adversarial

    def _step(self, x, y, momentum):
        x = x.detach().requires_grad_(True)
        loss = nn.functional.cross_entropy(self.model(x), y)
        (grad,) = torch.autograd.grad(loss, x)
        momentum = self.decay * momentum + grad / grad.abs().mean()
        return x + 0.1 * momentum.sign(), momentum
