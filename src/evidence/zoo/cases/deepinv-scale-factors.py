import torch
from deepinv.transform import Scale

device = torch.device("cuda:0")
network = torch.nn.Conv2d(1, 1, 3, padding=1).to(device)
augment = Scale(n_trans=2)
images = torch.rand(3, 1, 16, 16, device=device)
views = augment(images)
loss = (network(views) - views).square().mean()
loss.backward()
print(loss.item())
print("SCENARIO OK")
