# cause: checkpoint-map-location
import os
import tempfile

import torch
from torch import nn

path = os.path.join(tempfile.mkdtemp(), "c.pt")
torch.save({"mean": torch.zeros(8, device="cuda:1"), "std": torch.ones(8, device="cuda:1")}, path)
stats = torch.load(path)
model = nn.Linear(8, 8).to("cuda:0")
x = torch.randn(4, 8, device="cuda:0")
out = model((x - stats["mean"]) / stats["std"])
