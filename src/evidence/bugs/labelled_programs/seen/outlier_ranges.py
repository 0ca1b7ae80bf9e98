# cause: metric-state-device|tensor-created-on-wrong-device|quantized-state-on-other-device
# guilty: self.top (self.low)
# after: vllm-project/llm-compressor#47
import torch
from torch import nn


class Ranges:
    def __init__(self, width):
        self.low = torch.full((width,), float("inf"))
        self.top = torch.full((width,), float("-inf"))

    def __call__(self, module, args):
        rows = args[0].detach().flatten(0, -2)
        self.top = torch.maximum(self.top, rows.amax(0))
        self.low = torch.minimum(self.low, rows.amin(0))

    def scale(self):
        return torch.maximum(self.top, -self.low) / 127


net = nn.Sequential(nn.Linear(6, 12), nn.ReLU(), nn.Linear(12, 3)).to("cuda:0").eval()
ranges = {}
for number, layer in enumerate(net):
    if isinstance(layer, nn.Linear):
        ranges[number] = Ranges(layer.in_features)
        layer.register_forward_pre_hook(ranges[number])
with torch.no_grad():
    for _ in range(2):
        net(torch.randn(4, 6, device="cuda:0"))
print({number: each.scale().max().item() for number, each in ranges.items()})
