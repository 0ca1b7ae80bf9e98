# cause: hard-coded-device|tensor-created-on-wrong-device
# guilty: index (LogLevels.slopes, slopes)
# line: 37
# repair: keep one table per device (look the slopes up with LogLevels.slopes.to(grad.device)[index], or save the table with the input through ctx.save_for_backward) instead of the class-level table on "cuda:0"
"""Training with weights on logarithmic levels; a custom gradient reads slopes from a table."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class LogLevels:
    """Tables shared by every quantised layer of the program."""

    levels = None
    slopes = None

    @classmethod
    def build(cls, bits=4, device="cuda:0"):
        positive = 2.0 ** -torch.arange(2 ** (bits - 1) - 1, -1, -1, dtype=torch.float)
        cls.levels = torch.cat([-positive.flip(0), torch.zeros(1), positive]).to(device)
        middle = (cls.levels[1:] + cls.levels[:-1]) / 2
        cls.middle = middle
        width = torch.diff(cls.levels)
        cls.slopes = torch.cat([width[:1], (width[1:] + width[:-1]) / 2, width[-1:]]).clamp(0.2, 1.0)


class SnapToLevels(torch.autograd.Function):
    @staticmethod
    def forward(ctx, weight):
        index = torch.bucketize(weight.detach(), LogLevels.middle.to(weight.device))
        ctx.save_for_backward(index)
        return LogLevels.levels.to(weight.device)[index]

    @staticmethod
    def backward(ctx, grad):
        index, = ctx.saved_tensors
        slope = LogLevels.slopes[index]
        return grad * (0.5 + slope)


class LogLinear(nn.Linear):
    def forward(self, x):
        return F.linear(x, SnapToLevels.apply(self.weight), self.bias)


LAYERS = {"log": LogLinear, "plain": nn.Linear}


def build(spec, cards):
    """spec: list of (kind, in, out, card index)."""
    layers = nn.ModuleList(LAYERS[kind](i, o).to(cards[c]) for kind, i, o, c in spec)
    return LayerChain(layers)


class LayerChain(nn.Module):
    def __init__(self, layers):
        super().__init__()
        self.layers = layers

    def forward(self, x):
        for k, layer in enumerate(self.layers):
            x = layer(x.to(layer.weight.device))
            if k + 1 < len(self.layers):
                x = F.relu(x)
        return x


def train(model, steps):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for step in range(steps):
        x = torch.randn(32, 12)
        y = (x[:, :4] * x[:, 4:8]).argmax(1)
        out = model(x)
        loss = F.cross_entropy(out, y.to(out.device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(step, loss.item())


if __name__ == "__main__":
    torch.manual_seed(0)
    LogLevels.build(bits=4)
    spec = [("plain", 12, 32, 0), ("log", 32, 32, 0), ("log", 32, 32, 1), ("plain", 32, 4, 1)]
    train(build(spec, ["cuda:0", "cuda:1"]), steps=3)
