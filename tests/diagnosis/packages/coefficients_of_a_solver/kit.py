import torch
from torch import nn


class Tableau:
    A = torch.tensor([[0.0, 0.0], [0.5, 0.0]])
    B = torch.tensor([0.0, 1.0])


def integrate(field, x, step=0.1):
    slopes = []
    for row in Tableau.A:
        here = x if not slopes else x + step * sum(a * k for a, k in zip(row, slopes))
        slopes.append(field(here))
    slopes = torch.stack(slopes, -1)
    return x + step * (slopes * Tableau.B).sum(-1)
