# cause: optimizer-state-on-other-device|module-left-on-other-device
# guilty: ema_v (ema)
# after: huggingface/pytorch-image-models#2127
import copy

import torch
from torch import nn


class Averaged(nn.Module):
    def __init__(self, model, decay=0.99, device=None):
        super().__init__()
        self.module = copy.deepcopy(model).eval()
        self.decay, self.device = decay, device
        if device is not None:
            self.module.to(device=device)

    @torch.no_grad()
    def update(self, model):
        for ema_v, model_v in zip(self.module.state_dict().values(), model.state_dict().values()):
            if ema_v.is_floating_point():
                ema_v.lerp_(model_v, weight=1.0 - self.decay)
            else:
                ema_v.copy_(model_v)


net = nn.Sequential(nn.Conv2d(3, 6, 3), nn.BatchNorm2d(6), nn.Flatten(), nn.Linear(216, 4)).to("cuda:0")
averaged = Averaged(net, device="cpu")
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(2):
    loss = net(torch.randn(4, 3, 8, 8, device="cuda:0")).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    averaged.update(net)
