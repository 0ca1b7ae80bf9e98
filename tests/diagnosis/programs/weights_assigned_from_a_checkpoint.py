# cause: checkpoint-map-location
import os
import tempfile

import torch
from torch import nn


def build():
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))


path = os.path.join(tempfile.mkdtemp(), "w.pt")
torch.save(build().state_dict(), path)
device = torch.device("cuda:0")
net = build().to(device)
net.load_state_dict(torch.load(path), assign=True)
print(net(torch.randn(3, 4, device=device)))
