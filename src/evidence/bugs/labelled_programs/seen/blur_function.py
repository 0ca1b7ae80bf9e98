# cause: tensor-created-on-wrong-device
# guilty: k
import torch
import torch.nn as nn
import torch.nn.functional as F


def gaussian(width, sigma):
    r = torch.arange(width) - width // 2
    g = torch.exp(-r.float() ** 2 / (2 * sigma ** 2))
    g = g / g.sum()
    return g[:, None] * g[None]


class Smooth(torch.autograd.Function):
    taps = gaussian(5, 1.2)

    @staticmethod
    def kernel_for(x):
        return Smooth.taps.to(x.dtype).expand(x.size(1), 1, 5, 5)

    @staticmethod
    def forward(ctx, x):
        ctx.channels = x.size(1)
        with torch.no_grad():
            return F.avg_pool2d(F.pad(x, (1, 1, 1, 1), mode="replicate"), 3, 1)

    @staticmethod
    def backward(ctx, grad):
        k = Smooth.kernel_for(grad)
        return F.conv2d(grad, k, padding=2, groups=ctx.channels)


class Deblur(nn.Module):
    def __init__(self, c=8):
        super().__init__()
        self.inp = nn.Conv2d(1, c, 3, padding=1)
        self.out = nn.Conv2d(c, 1, 3, padding=1)

    def forward(self, x):
        return x + self.out(F.gelu(self.inp(x)))


class Problem:
    def __init__(self, device, n=4, size=20):
        self.clean = torch.rand(n, 1, size, size, device=device)
        self.observed = F.avg_pool2d(F.pad(self.clean, (1,) * 4, mode="replicate"), 3, 1)

    def residual(self, estimate):
        return F.mse_loss(Smooth.apply(estimate), self.observed)


def solve(device, steps=4):
    torch.manual_seed(0)
    problem = Problem(device)
    net = Deblur().to(device)
    opt = torch.optim.Adam(net.parameters(), 1e-2)
    with torch.no_grad():
        print("initial", problem.residual(net(problem.observed)).item())
    for i in range(steps):
        loss = problem.residual(net(problem.observed))
        opt.zero_grad()
        loss.backward()
        opt.step()
        print(i, loss.item())


solve("cuda:0")
