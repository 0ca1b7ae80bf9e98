# cause: loss-or-label-on-other-device
import torch
from torch import nn
D = nn.Sequential(nn.Linear(8, 1), nn.Sigmoid()).cuda()
bce = nn.BCELoss()
fake = torch.randn(4, 8).cuda()
real_label = torch.ones(4, 1)
loss = bce(D(fake), real_label)
