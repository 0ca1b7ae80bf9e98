# cause: extra-input-on-wrong-device
# guilty: mean
import kit
import torch

table = torch.rand(30, 5)
net = kit.Regressor().to("cuda:0")
mean = table.mean(0)
print(net(table.to("cuda:0"), mean).shape)
