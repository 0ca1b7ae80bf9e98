# cause: tensor-created-on-wrong-device
# guilty: jitter (torch.eye(len(x)) or 0.001 * torch.eye(len(x)))
import kit
import torch

process = kit.Process().to("cuda:1")
print(process.marginal(torch.randn(5, 2, device="cuda:1")).shape)
