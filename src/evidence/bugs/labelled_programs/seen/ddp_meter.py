# cause: collective-off-its-gpu|metric-state-device
# guilty: packed
import os
import tempfile
import torch
import torch.distributed as dist
import torch.nn as nn


class Meter:
    def __init__(self):
        self.total, self.count = 0.0, 0

    def add(self, value, n):
        self.total += float(value) * n
        self.count += n

    def as_tensor(self):
        return torch.tensor([self.total, float(self.count)], dtype=torch.float64)

    def synchronise(self):
        packed = self.as_tensor()
        dist.all_reduce(packed)
        self.total, self.count = packed[0].item(), int(packed[1].item())

    @property
    def mean(self):
        return self.total / max(self.count, 1)


class Worker:
    def __init__(self, rank, world):
        self.rank, self.world = rank, world
        self.device = torch.device("cuda:0")
        torch.manual_seed(rank)
        self.net = nn.Sequential(nn.Linear(6, 32), nn.Tanh(), nn.Linear(32, 1)).to(self.device)
        for p in self.net.parameters():
            dist.broadcast(p.data, src=0)
        self.opt = torch.optim.SGD(self.net.parameters(), lr=0.05)

    def average_grads(self):
        for p in self.net.parameters():
            dist.all_reduce(p.grad)
            p.grad /= self.world

    def epoch(self, steps=4):
        meter = Meter()
        for _ in range(steps):
            x = torch.randn(16, 6, device=self.device)
            loss = nn.functional.mse_loss(self.net(x), x.prod(1, keepdim=True))
            self.opt.zero_grad()
            loss.backward()
            self.average_grads()
            self.opt.step()
            meter.add(loss.detach(), x.size(0))
        meter.synchronise()
        return meter.mean


def main():
    rank, world = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
    store = os.path.join(tempfile.mkdtemp(), "rdzv")
    dist.init_process_group("nccl", init_method=f"file://{store}", rank=rank, world_size=world)
    try:
        w = Worker(rank, world)
        for e in range(2):
            loss = w.epoch()
            if rank == 0:
                print("epoch", e, "loss", loss)
    finally:
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
