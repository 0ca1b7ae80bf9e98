import torch


def gradient_penalty(critic, real, fake):
    share = torch.rand(len(real), 1)
    mixed = (share * real + (1 - share) * fake).requires_grad_(True)
    (grad,) = torch.autograd.grad(critic(mixed).sum(), mixed, create_graph=True)
    return (grad.norm(2, dim=1) - 1).pow(2).mean()
