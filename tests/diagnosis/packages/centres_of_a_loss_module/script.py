# cause: module-left-on-other-device|loss-or-label-on-other-device
# guilty: self.centres (centres)
import kit
import torch
from torch import nn

trainer = kit.Trainer(nn.Linear(6, 4), kit.CentreLoss(3, 4), "cuda:0")
trainer.step(torch.randn(5, 6), torch.randint(0, 3, (5,)))
