# cause: tensor-created-on-wrong-device|extra-input-on-wrong-device|block-split-across-devices
# guilty: shadow (x, ctx.saved_tensors)
# line: 24
# repair: in Recompute.forward save the moved input (inner = x.to(card); ctx.save_for_backward(inner)) OR in Recompute.backward build shadow from x.to(ctx.card)
"""Hand-written activation recomputation for a network in two stages."""
import torch
from torch import nn


class Recompute(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, module, card, *params):
        ctx.module, ctx.card = module, card
        ctx.source = x.device
        ctx.save_for_backward(x)
        with torch.no_grad():
            return module(x.to(card))

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        with torch.enable_grad():
            shadow = x.detach().requires_grad_(True)
            y = ctx.module(shadow)
        params = tuple(ctx.module.parameters())
        grads = torch.autograd.grad(y, (shadow,) + params, grad)
        return (grads[0].to(ctx.source), None, None) + grads[1:]


class LeanStage(nn.Module):
    def __init__(self, width, card):
        super().__init__()
        self.card = torch.device(card)
        self.body = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.GELU(),
                                  nn.Linear(4 * width, width)).to(self.card)

    def forward(self, x):
        return Recompute.apply(x, self.body, self.card, *self.body.parameters())


class LeanNet(nn.Module):
    def __init__(self, width=20, cards=("cuda:0", "cuda:1")):
        super().__init__()
        self.stem = nn.Linear(6, width).to(cards[0])
        self.stages = nn.ModuleList([LeanStage(width, c) for c in cards])
        self.head = nn.Linear(width, 1).to(cards[-1])

    def forward(self, x):
        h = self.stem(x)
        for stage in self.stages:
            h = stage(h)
        return self.head(h)


def fit(net, steps=3):
    opt = torch.optim.SGD(net.parameters(), lr=0.01)
    for step in range(steps):
        x = torch.randn(32, 6, device="cuda:0")
        y = x.sum(1, keepdim=True)
        out = net(x)
        loss = nn.functional.mse_loss(out, y.to(out.device))
        opt.zero_grad()
        loss.backward()
        opt.step()
        print(step, round(loss.item(), 4))


if __name__ == "__main__":
    torch.manual_seed(0)
    fit(LeanNet())
