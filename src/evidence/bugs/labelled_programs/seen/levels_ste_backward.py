# cause: tensor-created-on-wrong-device
# guilty: levels (the saved levels)
# line: 23
# repair: save the moved table: in NearestLevel.forward do levels = levels.to(x.device) before ctx.save_for_backward(x, levels) OR register LevelQuant.levels as a buffer so that it moves with the model
"""Activations quantised to learned-by-hand levels with a soft straight-through gradient."""
import torch
import torch.nn.functional as F
from torch import nn


class NearestLevel(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, levels, sharpness):
        ctx.save_for_backward(x, levels)
        ctx.sharpness = sharpness
        table = levels.to(x.device)
        index = (x.unsqueeze(-1) - table).abs().argmin(-1)
        return table[index]

    @staticmethod
    def backward(ctx, grad):
        x, levels = ctx.saved_tensors
        gaps = x.unsqueeze(-1) - levels
        closeness = torch.exp(-ctx.sharpness * gaps.abs()).amax(-1)
        return grad * (0.5 + 0.5 * closeness), None, None


class LevelQuant(nn.Module):
    def __init__(self, bits=3, span=2.0, sharpness=4.0):
        super().__init__()
        steps = torch.linspace(0, 1, 2 ** bits)
        self.levels = span * steps ** 1.5
        self.sharpness = sharpness

    def forward(self, x):
        return NearestLevel.apply(x, self.levels, self.sharpness)


class QuantBlock(nn.Module):
    def __init__(self, cin, cout, bits):
        super().__init__()
        self.conv = nn.Conv2d(cin, cout, 3, padding=1, bias=False)
        self.bn = nn.BatchNorm2d(cout)
        self.quant = LevelQuant(bits)

    def forward(self, x):
        return self.quant(F.relu(self.bn(self.conv(x))))


class QuantNet(nn.Module):
    def __init__(self, bits=3, classes=4):
        super().__init__()
        self.blocks = nn.Sequential(QuantBlock(1, 8, bits), nn.MaxPool2d(2), QuantBlock(8, 16, bits))
        self.head = nn.Linear(16, classes)

    def forward(self, x):
        return self.head(self.blocks(x).mean((2, 3)))


def shapes(size):
    x = torch.zeros(size, 1, 16, 16)
    y = torch.randint(0, 4, (size,))
    for i, label in enumerate(y.tolist()):
        r, c = divmod(label, 2)
        x[i, 0, 8 * r:8 * r + 8, 8 * c:8 * c + 8] = 1.0
    return x + 0.1 * torch.randn_like(x), y


def evaluate(net, device):
    net.eval()
    with torch.no_grad():
        x, y = shapes(32)
        hits = (net(x.to(device)).argmax(-1) == y.to(device)).float().mean()
    net.train()
    return hits.item()


def main(device="cuda:0"):
    torch.manual_seed(0)
    net = QuantNet().to(device)
    print("before", evaluate(net, device))
    optimizer = torch.optim.Adam(net.parameters(), lr=2e-3)
    for _ in range(3):
        x, y = shapes(16)
        loss = F.cross_entropy(net(x.to(device)), y.to(device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print("after", evaluate(net, device))


if __name__ == "__main__":
    main()
