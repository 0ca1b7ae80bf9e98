"""Collectives with tensors that are not on the GPU of their group, one function each."""

import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

local_rank = int(os.environ["LOCAL_RANK"])


def on_the_host():
    seen = torch.tensor(float(local_rank + 1))
    dist.all_reduce(seen)
    assert seen.item() == 3, seen


def moved_to_the_host():
    count = torch.ones(2, device="cuda").cpu()
    dist.broadcast(count, 0)


def outputs_on_the_host():
    outputs = [torch.empty(2) for _ in range(2)]
    dist.all_gather(outputs, torch.ones(2, device="cuda"))
    assert outputs[1].sum() == 2, outputs


def coalesced_on_two_gpus():
    pair = [torch.ones(2, device="cuda:0"), torch.ones(2, device="cuda:1")]
    with dist._coalescing_manager():
        for each in pair:
            dist.all_reduce(each)


def on_two_gpus():
    output = torch.empty(4, device="cuda:0")
    dist.all_gather_into_tensor(output, torch.ones(2, device="cuda"))


def all_on_one_gpu():
    scale = torch.ones(3, device="cuda:0")
    dist.all_reduce(scale)
    assert scale[0] == 2, scale


def model_on_the_host():
    DistributedDataParallel(torch.nn.Linear(2, 2))


def nothing_astray():
    dist.all_reduce(torch.ones(2, device="cuda"))
    dist.all_reduce(torch.ones(2), group=dist.new_group(backend="gloo"))
    dist.all_gather_object([None, None], local_rank)
    dist.barrier()


torch.cuda.set_device(local_rank)
dist.init_process_group("nccl")
nothing_astray()
for case in (
    on_the_host,
    moved_to_the_host,
    outputs_on_the_host,
    coalesced_on_two_gpus,
    on_two_gpus,
    all_on_one_gpu,
    model_on_the_host,
):
    case()
nothing_astray()
dist.destroy_process_group()
