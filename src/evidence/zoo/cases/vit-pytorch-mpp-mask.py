import torch
from vit_pytorch import ViT
from vit_pytorch.mpp import MPP

model = ViT(image_size=32, patch_size=8, num_classes=4, dim=64, depth=1, heads=2, mlp_dim=32)
trainer = MPP(transformer=model, patch_size=8, dim=64).to("cuda:0")
loss = trainer(torch.rand(2, 3, 32, 32, device="cuda:0"))
loss.backward()
print(loss)
print("SCENARIO OK")
