import torch
from byol_pytorch import BYOL
from torch import nn

network = nn.Sequential(
    nn.Conv2d(3, 8, 3, stride=2), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 4)
).to("cuda:0")
learner = BYOL(
    network, image_size=16, hidden_layer=-2, projection_size=8, projection_hidden_size=16,
    augment_fn=nn.Identity(),
).to("cuda:0")
loss = learner(torch.randn(4, 3, 16, 16, device="cuda:0"))
loss.backward()
print(loss)
print("SCENARIO OK")
