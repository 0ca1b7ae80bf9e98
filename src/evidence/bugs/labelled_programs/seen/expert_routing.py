# cause: numpy-of-gpu-tensor
# guilty: assign
import numpy as np
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint


class HardRoute(torch.autograd.Function):
    @staticmethod
    def forward(ctx, logits):
        probs = logits.softmax(-1)
        pick = probs.argmax(-1)
        ctx.save_for_backward(probs)
        return nn.functional.one_hot(pick, logits.size(-1)).to(logits.dtype)

    @staticmethod
    def backward(ctx, grad):
        probs, = ctx.saved_tensors
        return probs * (grad - (grad * probs).sum(-1, keepdim=True))


class MoE(nn.Module):
    def __init__(self, d=16, experts=4):
        super().__init__()
        self.gate = nn.Linear(d, experts)
        self.experts = nn.ModuleList(
            nn.Sequential(nn.Linear(d, 32), nn.GELU(), nn.Linear(32, d)) for _ in range(experts))
        self.last = None

    def forward(self, x):
        gates = HardRoute.apply(self.gate(x))
        outs = [checkpoint(e, x, use_reentrant=False) for e in self.experts]
        self.last = gates.detach()
        return x + torch.einsum("be,ebd->bd", gates, torch.stack(outs))


class Net(nn.Module):
    def __init__(self, d=16):
        super().__init__()
        self.moe = nn.ModuleList(MoE(d) for _ in range(2))
        self.out = nn.Linear(d, 1)

    def forward(self, x):
        for m in self.moe:
            x = m(x)
        return self.out(x).squeeze(-1)


def load_report(net):
    lines = []
    for i, m in enumerate(net.moe):
        assign = m.last.argmax(-1)
        share = m.last.mean(0).cpu().numpy()
        counts = np.bincount(assign, minlength=len(m.experts))
        lines.append(f"layer {i} counts {counts.tolist()} max share {share.max():.2f}")
    return lines


def main():
    torch.manual_seed(0)
    dev = torch.device("cuda:0")
    net = Net().to(dev)
    opt = torch.optim.Adam(net.parameters(), 1e-3)
    history = []
    for step in range(5):
        x = torch.randn(64, 16, device=dev)
        y = torch.where(x[:, 0] > 0, x[:, 1], -x[:, 2])
        loss = nn.functional.mse_loss(net(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        history.append(loss.detach().cpu().numpy())
    print("mean loss", np.mean(history))
    print("\n".join(load_report(net)))


if __name__ == "__main__":
    main()
