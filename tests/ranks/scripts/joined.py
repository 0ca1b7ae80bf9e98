"""Small parameters and gradients in buffers that are not small: each wrapper trains as one device does."""

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import bf16_compress_hook
from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel

RANK, SIZE = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
GPU = torch.device("cuda", int(os.environ["LOCAL_RANK"]))


def model():
    torch.manual_seed(0)
    layers = [nn.Sequential(nn.Linear(256, 256), nn.GELU(), nn.LayerNorm(256)) for _ in range(9)]
    return nn.Sequential(*layers, nn.Linear(256, 3))


def batch(rank, step):
    return torch.randn(4, 256, generator=torch.Generator().manual_seed(10 * step + rank))


def losses(whole, wrapped, optimizer, ranks):
    for step in range(3):
        loss = sum(wrapped(batch(rank, step).to(whole)).pow(2).mean() for rank in ranks) / len(ranks)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        yield loss.detach().clone()


def sgd(module):
    return torch.optim.SGD(module.parameters(), lr=0.1)


def hooked(module):
    wrapped = DistributedDataParallel(module, device_ids=[GPU.index])
    wrapped.register_comm_hook(None, bf16_compress_hook)
    return wrapped, sgd(wrapped)


def sharded_optimizer(module):
    wrapped = DistributedDataParallel(module, device_ids=[GPU.index])
    return wrapped, ZeroRedundancyOptimizer(
        wrapped.parameters(), torch.optim.SGD, lr=0.1, parameters_as_bucket_view=True
    )


def flat(module):
    wrapped = FullyShardedDataParallel(module, use_orig_params=True)
    return wrapped, sgd(wrapped)


def sharded(module):
    return fully_shard(module), sgd(module)


dist.init_process_group("nccl")
torch.cuda.set_device(GPU)
host = model()
assert (
    sum(each.nbytes for each in host.parameters()) > 2 << 20 > max(each.nbytes for each in host.parameters())
)
wanted = list(losses(torch.zeros(()), host, sgd(host), range(SIZE)))
for wrap in (hooked, sharded_optimizer, flat, sharded):
    module = model().to(GPU)
    wrapped, optimizer = wrap(module)
    for theirs, ours in zip(
        wanted, losses(torch.zeros((), device=GPU), wrapped, optimizer, [RANK]), strict=True
    ):
        dist.all_reduce(ours)
        torch.testing.assert_close(ours.cpu() / SIZE, theirs, rtol=1e-2, atol=1e-3, msg=wrap.__name__)
print("done", flush=True)
dist.destroy_process_group()
