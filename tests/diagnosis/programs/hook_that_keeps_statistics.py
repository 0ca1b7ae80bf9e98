# cause: metric-state-device
import torch
from torch import nn


class Watch:
    def __init__(self, module, width):
        self.mean = torch.zeros(width)
        self.count = 0
        module.register_forward_hook(self.see)

    def see(self, module, args, output):
        self.count += 1
        self.mean += (output.detach().mean(0) - self.mean) / self.count


body = nn.Sequential(nn.Linear(4, 10), nn.Tanh(), nn.Linear(10, 3))
watch = Watch(body[1], 10)
body.to("cuda")
for _ in range(3):
    body(torch.randn(5, 4, device="cuda"))
print(watch.mean)
