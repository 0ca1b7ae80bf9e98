import torch


class Walker:
    def __init__(self, energy, size):
        self.energy = energy
        self.scale = torch.full((size,), 0.1)

    def run(self, start, steps=2):
        x = start
        for _ in range(steps):
            proposal = x + self.scale * torch.randn_like(x)
            better = self.energy(proposal) < self.energy(x)
            x = torch.where(better, proposal, x)
        return x
