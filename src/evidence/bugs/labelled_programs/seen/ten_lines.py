# cause: input-not-on-embedding-device
# guilty: ?
import torch

model = torch.nn.Linear(8, 8).to("cuda:1")
x = torch.randn(2, 8, device="cuda:0")
print(model(x))
