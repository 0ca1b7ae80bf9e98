# cause: quantized-state-on-other-device
# guilty: self.state["absmax"] (absmax, scales, state)
# line: 38
# repair: register codes' state as buffers (self.register_buffer("absmax", ...), self.register_buffer("code", ...)) in QuantLinear.from_linear instead of a plain dict, so that model.to moves them OR override _apply to move self.state
"""Weights in 4 bits with a scale per block; quantised on the host, used on the card."""
import torch
import torch.nn.functional as F
from torch import nn

NF4 = [-1.0, -0.6962, -0.5251, -0.3949, -0.2844, -0.1848, -0.0911, 0.0,
       0.0796, 0.1609, 0.2461, 0.3379, 0.4407, 0.5626, 0.7230, 1.0]


def quantize_blocks(weight, block):
    flat = weight.reshape(-1, block)
    absmax = flat.abs().amax(1, keepdim=True).clamp(min=1e-8)
    code = torch.tensor(NF4)
    index = ((flat / absmax).unsqueeze(-1) - code).abs().argmin(-1).to(torch.uint8)
    return index, {"absmax": absmax, "code": code, "shape": weight.shape}


class QuantLinear(nn.Module):
    def __init__(self, index, state, bias):
        super().__init__()
        self.register_buffer("index", index)
        self.state = state
        self.bias = None if bias is None else nn.Parameter(bias)

    @classmethod
    def from_linear(cls, linear, block=16):
        index, state = quantize_blocks(linear.weight.data, block)
        bias = None if linear.bias is None else linear.bias.data.clone()
        return cls(index, state, bias)

    def dequantize(self):
        code = self.state["code"].to(self.index.device)
        values = code[self.index.long()]
        return (values * self.state["absmax"]).view(self.state["shape"])

    def forward(self, x):
        return F.linear(x, self.dequantize(), self.bias)


class FeedForward(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(self, x):
        return x + self.down(F.gelu(self.up(self.norm(x))))


class SmallNet(nn.Module):
    def __init__(self, features=16, width=32, depth=3, classes=5):
        super().__init__()
        self.enter = nn.Linear(features, width)
        self.blocks = nn.Sequential(*[FeedForward(width) for _ in range(depth)])
        self.classify = nn.Linear(width, classes)

    def forward(self, x):
        return self.classify(self.blocks(self.enter(x)))


def quantize_model(model, skip=("classify",)):
    for name, module in list(model.named_modules()):
        for child_name, child in list(module.named_children()):
            if isinstance(child, nn.Linear) and child_name not in skip:
                setattr(module, child_name, QuantLinear.from_linear(child))
    return model


def memory(model):
    return sum(t.numel() * t.element_size() for t in model.state_dict().values())


if __name__ == "__main__":
    torch.manual_seed(0)
    network = SmallNet().eval()
    before = memory(network)
    network = quantize_model(network).to("cuda:0")
    print(f"{before} -> {memory(network)} bytes")
    with torch.no_grad():
        print(network(torch.randn(6, 16, device="cuda:0")).argmax(-1).tolist())
