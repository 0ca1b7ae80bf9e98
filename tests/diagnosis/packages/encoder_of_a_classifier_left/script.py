# cause: module-left-on-other-device
# guilty: ?
import kit
import torch
from torch import nn

encoder = nn.Sequential(nn.Linear(6, 8), nn.ReLU())
kit.Classifier(encoder, 8, 3).fit(torch.randn(4, 6), torch.tensor([0, 1, 2, 0]))
