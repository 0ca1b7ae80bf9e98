# cause: collective-off-its-gpu
# guilty: p.data
import os
import tempfile
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn as nn
import torch.nn.functional as F


class Tower(nn.Module):
    def __init__(self, d_in, d=16):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(d_in, 32), nn.ReLU(), nn.Linear(32, d))

    def forward(self, x):
        return F.normalize(self.net(x), dim=-1)


def all_gather(t):
    bucket = [torch.empty_like(t) for _ in range(dist.get_world_size())]
    dist.all_gather(bucket, t.contiguous())
    bucket[dist.get_rank()] = t
    return torch.cat(bucket)


def info_nce(a, b, temperature=0.1):
    logits = all_gather(a) @ all_gather(b).t() / temperature
    target = torch.arange(logits.size(0), device=logits.device)
    return F.cross_entropy(logits, target)


def setup(rank, world, path):
    dist.init_process_group("nccl", init_method=f"file://{path}", rank=rank, world_size=world)


def worker(rank, world, path):
    setup(rank, world, path)
    torch.manual_seed(rank)
    left, right = Tower(8).cuda(), Tower(12).cuda()
    params = list(left.parameters()) + list(right.parameters())
    for p in params:
        dist.broadcast(p.data, 0)
    opt = torch.optim.Adam(params, 1e-3)
    for step in range(3):
        z = torch.randn(8, 4).cuda()
        x, y = torch.cat([z, z.sin()], 1), torch.cat([z, z.cos(), z * z], 1)
        loss = info_nce(left(x), right(y))
        opt.zero_grad()
        loss.backward()
        for p in params:
            dist.all_reduce(p.grad)
        opt.step()
        if rank == 0:
            print(step, loss.item())
    dist.destroy_process_group()


if __name__ == "__main__":
    world = torch.cuda.device_count()
    rdzv = os.path.join(tempfile.mkdtemp(), "store")
    mp.spawn(worker, args=(world, rdzv), nprocs=world)
