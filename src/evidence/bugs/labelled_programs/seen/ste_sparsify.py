# cause: tensor-created-on-wrong-device
# guilty: decay
import torch
import torch.nn as nn


class TopKMask(torch.autograd.Function):
    @staticmethod
    def forward(ctx, w, keep):
        k = max(1, int(w.numel() * keep))
        cut = w.abs().flatten().topk(k).values[-1]
        ctx.save_for_backward(w, cut)
        return torch.where(w.abs() >= cut, w, torch.zeros_like(w))

    @staticmethod
    def backward(ctx, grad):
        w, cut = ctx.saved_tensors
        decay = torch.full(w.shape, 0.1)
        factor = torch.where(w.abs() >= cut, 1.0, decay)
        return grad * factor, None


class SparseLinear(nn.Linear):
    keep = 0.25

    def forward(self, x):
        return nn.functional.linear(x, TopKMask.apply(self.weight, self.keep), self.bias)


def main(device):
    net = nn.Sequential(SparseLinear(30, 80), nn.ReLU(), SparseLinear(80, 5)).to(device)
    opt = torch.optim.SGD(net.parameters(), lr=0.1)
    for step in range(4):
        x = torch.randn(64, 30, device=device)
        y = torch.randint(0, 5, (64,), device=device)
        loss = nn.functional.cross_entropy(net(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        print(step, f"{loss.item():.4f}")


if __name__ == "__main__":
    main(torch.device("cuda:0"))
