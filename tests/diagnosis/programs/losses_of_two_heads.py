# cause: loss-or-label-on-other-device
# guilty: depth_loss (total)
"""Two heads on two GPUs: the terms of the loss are added up before gradients are taken."""
import torch
from torch import nn
from torch.nn import functional as F

trunk = nn.Linear(6, 6).to("cuda:0")
heads = {"colour": nn.Linear(6, 3).to("cuda:0"), "depth": nn.Linear(6, 1).to("cuda:1")}
weights = [*trunk.parameters(), *heads["colour"].parameters(), *heads["depth"].parameters()]
optimizer = torch.optim.SGD(weights, lr=0.1)
for _ in range(2):
    seen = trunk(torch.randn(4, 6, device="cuda:0"))
    total = F.cross_entropy(heads["colour"](seen), torch.randint(3, (4,), device="cuda:0"))
    far = heads["depth"](seen.to("cuda:1"))
    depth_loss = far.abs().mean()
    total = total + depth_loss
    total.backward()
    print(sum(weight.grad.norm().item() for weight in weights))
    optimizer.step()
    optimizer.zero_grad()
