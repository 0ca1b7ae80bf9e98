import torch


class Mixture:
    """Densities around centres; only the kind of their device is remembered."""

    def __init__(self, centres):
        self.centres = centres
        self.kind = centres.device.type

    def draw(self, count):
        which = torch.arange(count) % len(self.centres)
        noise = torch.randn(count, self.centres.shape[1], device=self.kind)
        return self.centres[which] + noise
