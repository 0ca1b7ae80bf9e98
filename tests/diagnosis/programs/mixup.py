# cause: tensor-created-on-wrong-device
import torch
def mixup(x, alpha=0.4):
    lam = torch.distributions.Beta(alpha, alpha).sample((x.size(0), 1))
    perm = torch.randperm(x.size(0), device=x.device)
    return lam * x + (1 - lam) * x[perm]
mixup(torch.randn(4, 8, device="cuda:0"))
