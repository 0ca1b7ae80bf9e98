# cause: tensor-created-on-wrong-device|module-left-on-other-device
# guilty: mean
import kit
import torch

table = torch.rand(30, 5)
net = kit.Regressor(table.mean(0), table.std(0))
net.to("cuda:0")
with torch.no_grad():
    print(net(table[:4].to("cuda:0")))
