import torch
from torch import nn


def hutchinson(loss, params):
    grads = torch.autograd.grad(loss, params, create_graph=True)
    vs = [torch.randn(p.shape) for p in params]
    dot = sum((g * v).sum() for g, v in zip(grads, vs))
    return torch.autograd.grad(dot, params)
