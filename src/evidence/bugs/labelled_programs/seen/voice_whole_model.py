# cause: module-left-on-other-device
# guilty: ?
import torch
from torch import nn


def build():
    return nn.Sequential(nn.Conv1d(8, 16, 3), nn.ReLU(), nn.Flatten(), nn.Linear(16 * 10, 2))


gpu = torch.device("cuda:0")
net = build().eval()
clip = torch.rand(1, 8, 12).to(gpu)
with torch.no_grad():
    print(net(clip).softmax(-1))
