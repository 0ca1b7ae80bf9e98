# cause: quantized-state-on-other-device
# guilty: self.scale
import torch
import torch.nn as nn
import torch.nn.functional as F


class Int8Linear(nn.Module):
    def __init__(self, linear):
        super().__init__()
        w = linear.weight.detach()
        scale = w.abs().amax(dim=1, keepdim=True) / 127.0
        q = torch.clamp((w / scale).round(), -128, 127).to(torch.int8)
        self.register_buffer("qweight", q)
        self.scale = scale
        self.bias = None if linear.bias is None else nn.Parameter(linear.bias.detach().clone(), requires_grad=False)

    def forward(self, x):
        w = self.qweight.to(x.dtype) * self.scale
        return F.linear(x, w, self.bias)


def quantize(module, skip=("head",)):
    for name, child in module.named_children():
        if isinstance(child, nn.Linear) and name not in skip:
            setattr(module, name, Int8Linear(child))
        else:
            quantize(child, skip)
    return module


class Gated(nn.Module):
    def __init__(self, d, h):
        super().__init__()
        self.norm = nn.LayerNorm(d)
        self.up, self.gate, self.down = nn.Linear(d, h), nn.Linear(d, h), nn.Linear(h, d)

    def forward(self, x):
        y = self.norm(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class Ranker(nn.Module):
    def __init__(self, d=24, depth=3):
        super().__init__()
        self.blocks = nn.Sequential(*[Gated(d, 2 * d) for _ in range(depth)])
        self.head = nn.Linear(d, 1)

    def forward(self, x):
        return self.head(self.blocks(x)).squeeze(-1)


def train(model, device, steps=5):
    opt = torch.optim.Adam(model.parameters(), 1e-3)
    for _ in range(steps):
        x = torch.randn(32, 24, device=device)
        loss = F.mse_loss(model(x), x[:, 0] - x[:, 1])
        opt.zero_grad()
        loss.backward()
        opt.step()
    return loss.item()


if __name__ == "__main__":
    torch.manual_seed(0)
    model = Ranker().to("cuda:1")
    print("float loss", train(model, "cuda:1"))
    x = torch.randn(16, 24)
    with torch.no_grad():
        reference = model(x.to("cuda:1")).cpu()
        small = quantize(model.cpu()).eval().to("cuda:0")
        approx = small(x.to("cuda:0")).cpu()
    print("max error", (reference - approx).abs().max().item())
