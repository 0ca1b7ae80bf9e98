# cause: cache-or-beam-state-on-wrong-device|tensor-created-on-wrong-device
# guilty: self._bias (bias)
import kit
import torch

model = kit.Attention(4).to("cuda:0")
with torch.no_grad():
    model(torch.randn(1, 3, 4, device="cuda:0"))
    model.to("cuda:1")
    print(model(torch.randn(1, 3, 4, device="cuda:1")).shape)
