import piq
import torch

loss = piq.MultiScaleGMSDLoss(scale_weights=torch.tensor([0.2, 0.5, 0.3])).to("cuda:0")
target = torch.rand(2, 3, 64, 64, device="cuda:0")
image = torch.rand(2, 3, 64, 64, device="cuda:0", requires_grad=True)
loss(image, target).backward()
print(image.grad.abs().mean())
print("SCENARIO OK")
