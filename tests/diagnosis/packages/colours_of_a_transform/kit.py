import torch


class Normalise:
    def __init__(self, mean, std):
        self.mean = torch.tensor(mean)[:, None, None]
        self.std = torch.tensor(std)[:, None, None]

    def __call__(self, images):
        return (images - self.mean) / self.std


class Compose:
    def __init__(self, *steps):
        self.steps = steps

    def __call__(self, images):
        for step in self.steps:
            images = step(images)
        return images
