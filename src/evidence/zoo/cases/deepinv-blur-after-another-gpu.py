import torch
from deepinv.physics import Blur

kernel = torch.ones(1, 1, 3, 3) / 9
blur = Blur(filter=kernel, padding="circular", device="cuda:0")
print(blur.A(torch.rand(2, 1, 8, 8, device="cuda:0")).shape)

blur = blur.to("cuda:1")
image = torch.zeros(2, 1, 8, 8, device="cuda:1", requires_grad=True)
loss = (blur.A(image) - 1).square().mean()
loss.backward()
print(image.grad.norm())
print("SCENARIO OK")
