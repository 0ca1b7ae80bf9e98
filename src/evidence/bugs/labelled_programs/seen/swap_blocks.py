# cause: weights-moved-away-by-manager|offload-hook-bypassed|module-left-on-other-device
# guilty: blk.lin_in.weight (self.blocks[0].lin_in.weight or w)
"""Block swapping: only two transformer MLP blocks are on the card at a time."""
import torch
from torch import nn


class MLPBlock(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.norm = nn.LayerNorm(d)
        self.lin_in, self.lin_out = nn.Linear(d, 2 * d), nn.Linear(2 * d, d)

    def forward(self, x):
        return x + self.lin_out(torch.nn.functional.silu(self.lin_in(self.norm(x))))


class SwapManager:
    def __init__(self, blocks, device, keep):
        self.blocks, self.device, self.keep = blocks, device, keep
        self.resident = []
        for i, b in enumerate(blocks):
            b.register_forward_pre_hook(lambda m, a, i=i: self.bring(i))

    def bring(self, i):
        if i in self.resident:
            return
        if len(self.resident) == self.keep:
            self.blocks[self.resident.pop(0)].to("cpu")
        self.blocks[i].to(self.device)
        self.resident.append(i)


class Denoiser(nn.Module):
    def __init__(self, d=64, n=6):
        super().__init__()
        self.inp, self.out = nn.Linear(16, d), nn.Linear(d, 16)
        self.blocks = nn.ModuleList(MLPBlock(d) for _ in range(n))

    def forward(self, x):
        h = self.inp(x)
        for b in self.blocks:
            h = b(h)
        return self.out(h)

    def feature_probe(self, h, index):
        """First half of a block only, for the perceptual term."""
        blk = self.blocks[index]
        return nn.functional.linear(h, blk.lin_in.weight, blk.lin_in.bias).relu().mean()


@torch.no_grad()
def main():
    gpu = torch.device("cuda:0")
    net = Denoiser()
    net.inp.to(gpu)
    net.out.to(gpu)
    SwapManager(net.blocks, gpu, keep=2)
    x = torch.randn(4, 16, device=gpu)
    for step in range(3):
        x = x - 0.1 * net(x)
        print(step, net.feature_probe(net.inp(x), 0).item())


main()
