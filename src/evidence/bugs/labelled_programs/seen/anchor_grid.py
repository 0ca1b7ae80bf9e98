# cause: tensor-created-on-wrong-device
# guilty: ?
import torch
from torch import nn


class Detector(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Conv2d(3, 4, 3, stride=4)

    def grid(self, height, width):
        y, x = torch.meshgrid(torch.arange(height), torch.arange(width), indexing="ij")
        return torch.stack([x, y], -1).reshape(-1, 2)

    def forward(self, images):
        out = self.body(images)
        return out.flatten(2).transpose(1, 2)[..., :2] + self.grid(*out.shape[-2:])


model = Detector().cuda()
model(torch.rand(1, 3, 32, 32).cuda())
