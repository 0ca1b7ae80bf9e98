# cause: tensor-created-on-wrong-device
# guilty: side
import torch
import torch.nn as nn


class StepFn(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, width):
        ctx.save_for_backward(x, width)
        return (x > 0).to(x.dtype)

    @staticmethod
    def backward(ctx, g):
        x, width = ctx.saved_tensors
        near = x.abs() < width
        side = torch.zeros(width.shape)
        return g * near, side


class Spiking(nn.Module):
    def __init__(self, i=6, h=10, o=2):
        super().__init__()
        self.a, self.b = nn.Linear(i, h), nn.Linear(h, o)
        self.width = nn.Parameter(torch.ones(h))

    def forward(self, x, steps=3):
        v = 0.0
        out = 0.0
        for _ in range(steps):
            v = 0.8 * v + self.a(x)
            s = StepFn.apply(v - 0.5, self.width)
            v = v - s
            out = out + self.b(s)
        return out / steps


torch.manual_seed(0)
net = Spiking().to("cuda:0")
opt = torch.optim.Adam(net.parameters(), 0.01)
x = torch.randn(12, 6, device="cuda:0")
y = (x[:, 0] > 0).long()
for _ in range(3):
    loss = nn.functional.cross_entropy(net(x), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
print(loss.item())
