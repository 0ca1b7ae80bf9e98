# cause: tensor-created-on-wrong-device
# guilty: counts
import kit
import torch

model = kit.Conv(4).to("cuda:1")
edges = torch.tensor([[0, 1, 2], [1, 2, 0]], device="cuda:1")
print(model(torch.randn(3, 4, device="cuda:1"), edges).shape)
