# cause: quantized-state-on-other-device
# guilty: state.nested.code (code, nested.code)
# line: 50
# repair: in QuantState.to move the nested state as well: if self.nested is not None: self.nested.to(device) (it moves absmax and code of the inner state), or in the loop of QuantLinear._apply
import torch
import torch.nn as nn


class QuantState:
    """Block-wise code book state; the scales may be quantised once more (nested)."""

    def __init__(self, absmax, code, shape, block, offset=None, nested=None):
        self.absmax, self.code, self.shape, self.block = absmax, code, shape, block
        self.offset, self.nested = offset, nested

    def to(self, device):
        self.absmax = self.absmax.to(device)
        self.code = self.code.to(device)
        if self.nested is not None:
            self.offset = self.offset.to(device)
            self.nested.absmax = self.nested.absmax.to(device)
        return self


def code_book(bits):
    levels = torch.linspace(-1, 1, 2 ** bits)
    return levels.sign() * levels.abs() ** 1.3


def quantize_blocks(x, code, block):
    flat = x.reshape(-1, block)
    absmax = flat.abs().amax(1).clamp(min=1e-8)
    index = (flat / absmax[:, None]).unsqueeze(-1).sub(code).abs().argmin(-1)
    return index.to(torch.uint8), absmax


def quantize(weight, bits=4, block=16, inner_block=8):
    code = code_book(bits)
    packed, absmax = quantize_blocks(weight, code, block)
    offset = absmax.mean()
    inner_code = code_book(8)
    inner_packed, inner_absmax = quantize_blocks(absmax - offset, inner_code, inner_block)
    nested = QuantState(inner_absmax, inner_code, absmax.shape, inner_block)
    return packed, QuantState(inner_packed, code, weight.shape, block, offset, nested)


def dequantize(packed, state):
    absmax = state.absmax
    if state.nested is not None:
        inner = state.nested.code[absmax.long()]
        absmax = (inner * state.nested.absmax[:, None]).reshape(state.nested.shape) + state.offset
    values = state.code[packed.long()] * absmax[:, None]
    return values.reshape(state.shape)


class QuantLinear(nn.Module):
    def __init__(self, linear):
        super().__init__()
        packed, self.state = quantize(linear.weight.detach())
        self.register_buffer("packed", packed)
        self.bias = nn.Parameter(linear.bias.detach().clone())

    def _apply(self, fn, recurse=True):
        super()._apply(fn, recurse)
        self.state.to(self.packed.device)
        return self

    def forward(self, x):
        return nn.functional.linear(x, dequantize(self.packed, self.state), self.bias)


def convert(model):
    for name, child in model.named_children():
        if isinstance(child, nn.Linear):
            setattr(model, name, QuantLinear(child))
        else:
            convert(child)
    return model


class Ranker(nn.Module):
    def __init__(self, dim=64):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(dim, 128), nn.SiLU(), nn.Linear(128, dim), nn.SiLU())
        self.score = nn.Linear(dim, 16)

    def forward(self, x):
        return self.score(self.body(x))


if __name__ == "__main__":
    torch.manual_seed(0)
    model = Ranker().eval()
    x = torch.randn(8, 64)
    with torch.no_grad():
        exact = model(x)
        model = convert(model).to("cuda:1")
        rough = model(x.to("cuda:1"))
    print("error", (rough.cpu() - exact).abs().mean().item())
