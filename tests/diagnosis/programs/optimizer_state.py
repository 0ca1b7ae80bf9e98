# cause: optimizer-state-on-other-device|loss-or-label-on-other-device|checkpoint-map-location
import torch
from torch import nn


class Ema:
    def __init__(self, model):
        self.shadow = {k: v.detach().clone() for k, v in model.named_parameters()}

    def update(self, model, decay=0.9):
        for k, v in model.named_parameters():
            self.shadow[k].mul_(decay).add_(v.detach(), alpha=1 - decay)


model = nn.Linear(4, 4)
ema = Ema(model)
model.to("cuda:0")
opt = torch.optim.Adam(model.parameters())
model(torch.randn(2, 4, device="cuda:0")).sum().backward()
opt.step()
ema.update(model)
