# cause: generator-or-default-device
import torch
g = torch.Generator().manual_seed(1)
x = torch.empty(4, device="cuda:0")
x.normal_(generator=g)
