# cause: cache-or-beam-state-on-wrong-device|tensor-created-on-wrong-device
# guilty: ?
import kit
import torch

model = kit.Tagger(4).to("cuda:1")
print(model(torch.randn(3, 2, 4, device="cuda:1")).shape)
