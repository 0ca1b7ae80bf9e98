# cause: loss-or-label-on-other-device
# guilty: y
import kit
import torch
from torch import nn

loader = [(torch.randn(4, 6), torch.randint(0, 3, (4,))) for _ in range(2)]
kit.Trainer(nn.Linear(6, 3), torch.device("cuda:1")).fit(loader)
