import torch


class RunningMean:
    def __init__(self, size):
        self.mean = torch.zeros(size)
        self.count = 1e-4

    def update(self, batch):
        total = self.count + len(batch)
        delta = batch.mean(0) - self.mean
        self.mean = self.mean + delta * len(batch) / total
        self.count = total

    def normalise(self, x):
        return x - self.mean
