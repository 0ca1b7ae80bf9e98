# cause: tensor-created-on-wrong-device|metric-state-device
# guilty: self.usage
import kit
import torch

codes = kit.Codes(5, 3).to("cuda:1")
codes.restart()
print(codes(torch.randn(4, 3, device="cuda:1")).shape)
