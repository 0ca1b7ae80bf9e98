# cause: tensor-created-on-wrong-device
# guilty: strides (self.strides)
# after: open-mmlab/mmdetection#10026
import torch
from torch import nn


class Head(nn.Module):
    def __init__(self, strides=(4, 8, 16)):
        super().__init__()
        self.steps = strides
        self.reg = nn.Linear(8, 4)

    def decode(self, features, level):
        strides = torch.tensor(self.steps, dtype=torch.float32)
        return self.reg(features).exp() * strides[level].unsqueeze(-1)


device = torch.device("cuda:0")
head = Head().to(device)
features = torch.randn(9, 8, device=device)
level = torch.arange(9, device=device) // 3
boxes = head.decode(features, level)
print(boxes.max().item())
