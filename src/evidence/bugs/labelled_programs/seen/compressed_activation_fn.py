# cause: tensor-created-on-wrong-device
# guilty: kept (ctx.packed, packed)
# line: 34
# repair: in ThinRelu.backward bring the packed mask back, kept = unpack_bits(ctx.packed.to(grad.device), ctx.shape) OR in ThinRelu.forward do not send it to the host (drop .cpu())
"""ReLU that keeps one bit per value for the backward pass, parked on the host."""
import torch
import torch.nn as nn
import torch.nn.functional as F


def pack_bits(mask):
    flat = mask.flatten()
    flat = F.pad(flat, (0, -flat.numel() % 8)).view(-1, 8)
    places = torch.arange(8, device=mask.device, dtype=torch.uint8)
    return (flat.to(torch.uint8) << places).sum(1).to(torch.uint8)


def unpack_bits(packed, shape):
    bits = (packed[:, None] >> torch.arange(8, device=packed.device, dtype=torch.uint8)) & 1
    return bits.flatten()[: shape.numel()].view(shape)


class ThinRelu(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        keep = x > 0
        ctx.packed = pack_bits(keep).cpu()
        ctx.shape = x.shape
        return x * keep

    @staticmethod
    def backward(ctx, grad):
        kept = unpack_bits(ctx.packed, ctx.shape)
        return grad * kept


class ThinActivation(nn.Module):
    def forward(self, x):
        return ThinRelu.apply(x) if torch.is_grad_enabled() else F.relu(x)


def make_body(widths):
    layers = []
    for i, (a, b) in enumerate(zip(widths[:-1], widths[1:])):
        layers += [nn.Conv1d(a, b, 5, padding=2), nn.BatchNorm1d(b), ThinActivation()]
    return nn.Sequential(*layers)


class SignalNet(nn.Module):
    def __init__(self, classes=5):
        super().__init__()
        self.body = make_body([2, 16, 32, 32])
        self.head = nn.Linear(32, classes)

    def forward(self, x):
        return self.head(self.body(x).mean(-1))


@torch.no_grad()
def accuracy(net, x, y):
    net.eval()
    right = (net(x).argmax(-1) == y).float().mean().item()
    net.train()
    return right


def main():
    torch.manual_seed(0)
    device = torch.device("cuda:0")
    net = SignalNet().to(device)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
    y = torch.randint(0, 5, (32,), device=device)
    grid = torch.linspace(0, 6.28, 64, device=device)
    x = torch.stack([torch.sin((y[:, None] + 1) * grid), torch.cos((y[:, None] + 1) * grid)], dim=1)
    print("before", accuracy(net, x, y))
    for step in range(4):
        loss = F.cross_entropy(net(x + 0.1 * torch.randn_like(x)), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(step, loss.item())
    print("after", accuracy(net, x, y))


if __name__ == "__main__":
    main()
