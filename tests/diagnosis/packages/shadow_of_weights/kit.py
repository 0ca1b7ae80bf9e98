import torch


class Average:
    def __init__(self, model, decay=0.9):
        self.model, self.decay = model, decay
        self.shadow = {name: p.detach().clone() for name, p in model.named_parameters()}

    @torch.no_grad()
    def update(self):
        for name, p in self.model.named_parameters():
            shadow = self.shadow[name]
            shadow.mul_(self.decay).add_(p, alpha=1 - self.decay)
