# cause: tensor-created-on-wrong-device
# guilty: ?
import kit
import torch
from torch import nn

flow = nn.Conv2d(3, 2, 3, padding=1).to("cuda:0")
image = torch.rand(1, 3, 6, 6, device="cuda:0")
loss = kit.Warp()(image, flow(image)).mean()
loss.backward()
