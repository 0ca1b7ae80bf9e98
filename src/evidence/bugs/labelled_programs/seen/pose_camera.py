# cause: extra-input-on-wrong-device
# guilty: camera
import torch
from torch import nn


class Lifter(nn.Module):
    def __init__(self, joints=4):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(2 * joints, 32), nn.ReLU(), nn.Linear(32, 3 * joints))
        self.joints = joints

    def forward(self, flat, camera):
        points = self.body(flat).view(-1, self.joints, 3)
        return points @ camera.transpose(1, 2)


net = Lifter().to("cuda:1")
sample = {"flat": torch.rand(2, 8), "camera": torch.eye(3).repeat(2, 1, 1)}
print(net(sample["flat"].to("cuda:1"), sample["camera"]).shape)
