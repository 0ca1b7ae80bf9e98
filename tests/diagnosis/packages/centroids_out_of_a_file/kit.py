import torch


class Clusters:
    def __init__(self, file):
        self.centroids = torch.load(file, map_location="cpu")["centroids"]

    def assign(self, x):
        return (x[:, None] - self.centroids[None]).pow(2).sum(-1).argmin(1)
