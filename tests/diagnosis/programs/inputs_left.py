# cause: extra-input-on-wrong-device|input-not-on-embedding-device|module-left-on-other-device
import torch
from torch import nn

model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3)).cuda()


def batches():
    for _ in range(3):
        yield torch.randn(4, 8)


for x in batches():
    out = model(x)
