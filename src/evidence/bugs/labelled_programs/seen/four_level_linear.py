# cause: quantized-state-on-other-device|tensor-created-on-wrong-device
# guilty: self.LEVELS (CodebookLinear.LEVELS)
# line: 29
# repair: in CodebookLinear.__init__ keep the table per layer, `self.register_buffer("levels", LEVELS.to(device))`, instead of overwriting the class attribute OR `self.LEVELS.to(self.codes.device)[...]` in dequantize
"""Store linear layers as 4-bit codes with a shared codebook and run them over two GPUs."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class CodebookLinear(nn.Module):
    LEVELS = torch.tensor([-1.0, -0.6962, -0.5251, -0.3949, -0.2844, -0.1848, -0.0911, 0.0,
                           0.0796, 0.1609, 0.2461, 0.3379, 0.4407, 0.5626, 0.7230, 1.0])

    def __init__(self, linear, group):
        super().__init__()
        weight = linear.weight.detach()
        cls = type(self)
        cls.LEVELS = cls.LEVELS.to(weight.device)
        self.group, self.shape = group, weight.shape
        blocks = weight.reshape(-1, group)
        scale = blocks.abs().amax(1, keepdim=True).clamp(min=1e-8)
        codes = ((blocks / scale).unsqueeze(-1) - cls.LEVELS).abs().argmin(-1)
        self.register_buffer("codes", codes)
        self.register_buffer("scale", scale)
        self.bias = linear.bias

    def dequantize(self):
        values = self.LEVELS[self.codes]
        return (values * self.scale).view(self.shape)

    def forward(self, x):
        return F.linear(x, self.dequantize(), self.bias)


def quantize(module, group=16):
    for name, child in module.named_children():
        if isinstance(child, nn.Linear) and child.in_features % group == 0:
            setattr(module, name, CodebookLinear(child, group))
        else:
            quantize(child, group)
    return module


class GatedBlock(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.gate, self.up = nn.Linear(dim, 2 * dim), nn.Linear(dim, 2 * dim)
        self.down = nn.Linear(2 * dim, dim)

    def forward(self, x):
        h = self.norm(x)
        return x + self.down(F.silu(self.gate(h)) * self.up(h))


class Ranker(nn.Module):
    def __init__(self, d_in, dim, depth):
        super().__init__()
        self.inlet = nn.Linear(d_in, dim)
        self.blocks = nn.ModuleList(GatedBlock(dim) for _ in range(depth))
        self.outlet = nn.Linear(dim, 1)

    def forward(self, x):
        x = self.inlet(x)
        for block in self.blocks:
            x = block(x.to(block.norm.weight.device))
        return self.outlet(x).squeeze(-1)


class Deployment:
    def __init__(self, model, devices):
        self.devices = [torch.device(d) for d in devices]
        half = len(model.blocks) // 2
        model.inlet.to(self.devices[0])
        for i, block in enumerate(model.blocks):
            block.to(self.devices[int(i >= half)])
        model.outlet.to(self.devices[1])
        self.model = quantize(model).eval()

    @torch.no_grad()
    def rank(self, candidates):
        scores = self.model(candidates.to(self.devices[0]))
        return scores.argsort(descending=True).tolist()


if __name__ == "__main__":
    torch.manual_seed(0)
    deployment = Deployment(Ranker(32, 48, 4), ["cuda:0", "cuda:1"])
    print("order", deployment.rank(torch.randn(10, 32)))
