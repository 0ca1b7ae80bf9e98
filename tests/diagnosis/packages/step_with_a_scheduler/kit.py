import torch


class Scheduler:
    def __init__(self, count=10):
        self.sigmas = torch.linspace(1, 0, count)[:, None]

    def step(self, out, sample, step):
        return sample + out * self.sigmas[step : step + 1]
