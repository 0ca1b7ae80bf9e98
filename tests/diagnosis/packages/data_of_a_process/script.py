# cause: tensor-created-on-wrong-device|module-left-on-other-device|extra-input-on-wrong-device
# guilty: b (self.train_x)
import kit
import torch

process = kit.Process(torch.rand(10, 2), torch.rand(10)).to("cuda:0")
print(process(torch.rand(3, 2, device="cuda:0")))
