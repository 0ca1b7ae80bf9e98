import torch
from torch import nn


class Pruner:
    def __init__(self, model, share=0.5):
        self.model = model
        self.masks = {}
        for name, p in model.named_parameters():
            self.masks[name] = (p.detach().abs() > p.detach().abs().quantile(share)).float()

    @torch.no_grad()
    def apply(self):
        for name, p in self.model.named_parameters():
            p.mul_(self.masks[name])
