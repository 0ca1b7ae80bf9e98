# cause: tensor-created-on-wrong-device|module-left-on-other-device
# guilty: self.loc
import kit
import torch

data = torch.randn(40, 3)
flow = kit.build(data).to("cuda:0")
loss = flow(data.to("cuda:0")).square().mean()
loss.backward()
