# cause: extra-input-on-wrong-device
# guilty: ?
import kit
import torch

batch = {"x": torch.randn(2, 4), "spans": (torch.rand(4), torch.rand(4))}
batch = kit.to_device(batch, "cuda:0")
model = kit.Pair().to("cuda:0")
print(model(batch["x"], batch["spans"]).shape)
