# cause: metric-state-device|tensor-created-on-wrong-device|quantized-state-on-other-device
# guilty: self.H
# after: vllm-project/llm-compressor#47
import torch
from torch import nn


class Calibrated:
    def __init__(self, layer):
        self.layer, self.seen = layer, 0
        self.H = torch.zeros(layer.in_features, layer.in_features)

    def add(self, module, inputs, output):
        rows = inputs[0].reshape(-1, inputs[0].shape[-1]).float()
        self.H *= self.seen / (self.seen + len(rows))
        self.seen += len(rows)
        self.H += 2 / self.seen * rows.t().matmul(rows)


model = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 4)).to("cuda:1")
watched = {n: Calibrated(m) for n, m in model.named_modules() if isinstance(m, nn.Linear)}
hooks = [c.layer.register_forward_hook(c.add) for c in watched.values()]
with torch.no_grad():
    for _ in range(3):
        model(torch.randn(4, 8, device="cuda:1"))
for hook in hooks:
    hook.remove()
for name, each in watched.items():
    print(name, torch.linalg.cond(each.H + torch.eye(len(each.H))).item())
