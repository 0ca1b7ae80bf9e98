# cause: collective-off-its-gpu
# guilty: stats (totals or stats)
"""Two workers evaluate their shard and add up."""
import os

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn


def evaluate(model, shard, device):
    right = seen = 0
    for x, y in shard:
        guess = model(x.to(device)).argmax(1).cpu()
        right += (guess == y).sum().item()
        seen += len(y)
    return right, seen


def worker(rank, world):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29511")
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", rank=rank, world_size=world)
    device = torch.device("cuda", rank)
    model = nn.parallel.DistributedDataParallel(nn.Linear(12, 3).to(device), device_ids=[rank])
    shard = [(torch.randn(8, 12), torch.randint(0, 3, (8,))) for _ in range(2)]
    right, seen = evaluate(model, shard, device)
    stats = torch.tensor([right, seen], dtype=torch.float64)
    dist.all_reduce(stats)
    if rank == 0:
        print("accuracy", (stats[0] / stats[1]).item())
    dist.destroy_process_group()


if __name__ == "__main__":
    mp.spawn(worker, args=(2,), nprocs=2)
