# cause: tensor-created-on-wrong-device
# guilty: table (SurrogateSpike.table, cls.table)
# line: 35
# repair: keep one table for each device (dict keyed by device) in SurrogateSpike.lookup OR move it on use: table = SurrogateSpike.lookup(...).to(index.device)
import torch
import torch.nn as nn
import torch.nn.functional as F


class SurrogateSpike(torch.autograd.Function):
    """Heaviside in the forward pass; tabulated fast-sigmoid slope in the backward pass."""

    table = None
    bins, reach, slope = 256, 4.0, 5.0

    @classmethod
    def lookup(cls, like):
        if cls.table is None:
            grid = torch.linspace(-cls.reach, cls.reach, cls.bins, device=like.device)
            cls.table = 1.0 / (1.0 + cls.slope * grid.abs()) ** 2
        return cls.table

    @staticmethod
    def forward(ctx, potential):
        ctx.save_for_backward(potential)
        return (potential > 0).to(potential.dtype)

    @staticmethod
    def backward(ctx, grad):
        (potential,) = ctx.saved_tensors
        cls = SurrogateSpike
        unit = (potential.clamp(-cls.reach, cls.reach) + cls.reach) / (2 * cls.reach)
        index = (unit * (cls.bins - 1)).round().long()
        table = cls.lookup(potential)
        return grad * table[index]


spike = SurrogateSpike.apply


class LIFLayer(nn.Module):
    def __init__(self, dim_in, dim_out, decay=0.9, threshold=1.0):
        super().__init__()
        self.fc = nn.Linear(dim_in, dim_out)
        self.decay, self.threshold = decay, threshold

    def forward(self, seq):
        current = self.fc(seq)
        v = torch.zeros_like(current[:, 0])
        out = []
        for t in range(current.shape[1]):
            v = self.decay * v + current[:, t]
            s = spike(v - self.threshold)
            v = v - s * self.threshold
            out.append(s)
        return torch.stack(out, 1)


class SpikingNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = LIFLayer(20, 48).to("cuda:0")
        self.second = LIFLayer(48, 32).to("cuda:1")
        self.readout = nn.Linear(32, 5).to("cuda:1")

    def forward(self, x):
        h = self.first(x.to("cuda:0"))
        h = self.second(h.to("cuda:1"))
        return self.readout(h.mean(1))


def main():
    torch.manual_seed(0)
    net = SpikingNet()
    opt = torch.optim.Adam(net.parameters(), lr=2e-3)
    for step in range(3):
        x = (torch.rand(16, 10, 20) < 0.4).float() * 2
        y = torch.randint(0, 5, (16,), device="cuda:1")
        loss = F.cross_entropy(net(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        print(step, loss.item())


main()
