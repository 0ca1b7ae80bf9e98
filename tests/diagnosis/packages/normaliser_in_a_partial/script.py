# cause: tensor-created-on-wrong-device|module-left-on-other-device
# guilty: mean
import kit
import torch

net = kit.Backbone(torch.tensor([0.4, 0.5, 0.6]), torch.tensor([0.2, 0.2, 0.2])).to("cuda:1")
print(net(torch.rand(2, 3, 8, 8, device="cuda:1")).shape)
