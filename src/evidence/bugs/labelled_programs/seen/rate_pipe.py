# cause: loss-or-label-on-other-device
# guilty: ys
import torch
import torch.nn as nn
import torch.nn.functional as F


class Stage(nn.Module):
    def __init__(self, mods, device):
        super().__init__()
        self.device = torch.device(device)
        self.mods = nn.Sequential(*mods).to(self.device)

    def forward(self, x):
        return self.mods(x.to(self.device, non_blocking=True))


class MicroBatchPipe:
    def __init__(self, stages, chunks):
        self.stages, self.chunks = stages, chunks

    def parameters(self):
        return [p for s in self.stages for p in s.parameters()]

    def forward(self, x):
        for s in self.stages:
            x = s(x)
        return x

    def train_batch(self, x, y, loss_fn):
        total = 0.0
        for xs, ys in zip(x.chunk(self.chunks), y.chunk(self.chunks)):
            out = self.forward(xs)
            loss = loss_fn(out, ys) / self.chunks
            loss.backward()
            total += loss.item()
        return total


def spike_data(n, t=50):
    rate = torch.rand(n, 1) * 0.5
    x = (torch.rand(n, t) < rate).float()
    return x, (rate.squeeze(1) * 10).long()


def main():
    torch.manual_seed(0)
    front = Stage([nn.Linear(50, 64), nn.GELU(), nn.LayerNorm(64)], "cuda:0")
    back = Stage([nn.Linear(64, 64), nn.GELU(), nn.Linear(64, 5)], "cuda:1")
    pipe = MicroBatchPipe([front, back], chunks=2)
    opt = torch.optim.AdamW(pipe.parameters(), 1e-3)
    for step in range(4):
        x, y = (t.to(front.device) for t in spike_data(32))
        opt.zero_grad()
        print(step, pipe.train_batch(x, y, F.cross_entropy))
        opt.step()


if __name__ == "__main__":
    main()
