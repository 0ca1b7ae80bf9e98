# cause: tensor-created-on-wrong-device
# guilty: self.mean
import kit
import torch
from torch import nn

prepare = kit.Compose(kit.Normalise([0.5, 0.5, 0.5], [0.2, 0.2, 0.2]))
net = nn.Conv2d(3, 4, 3).to("cuda:0")
images = torch.rand(2, 3, 8, 8, device="cuda:0")
print(net(prepare(images)).shape)
