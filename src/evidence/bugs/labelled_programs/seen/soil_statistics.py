# cause: checkpoint-map-location
# guilty: mean
import os
import tempfile

import torch
from torch import nn

file = os.path.join(tempfile.mkdtemp(), "soil.pt")
torch.save({"mean": torch.rand(4, device="cuda:1")}, file)

net = nn.Linear(4, 1).to("cuda:0")


def predict(rows):
    mean = torch.load(file)["mean"]
    return net(rows.to("cuda:0") - mean)


print(predict(torch.rand(3, 4)).shape)
