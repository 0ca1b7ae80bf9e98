"""One process as rank 0 of a launch: right shapes and devices, the other ranks assumed equal."""

import os

import torch
import torch.distributed as dist

torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("nccl")
rank, size = dist.get_rank(), dist.get_world_size()
x = torch.arange(4.0, device="cuda")
dist.all_reduce(x)
assert x.tolist() == [0.0, size, 2.0 * size, 3.0 * size]
whole = torch.empty(4 * size, device="cuda")
dist.all_gather_into_tensor(whole, x)
part = torch.empty(4, device="cuda")
dist.reduce_scatter_tensor(part, whole, dist.ReduceOp.AVG)
assert torch.equal(part, x)
model = torch.nn.parallel.DistributedDataParallel(
    torch.nn.Linear(4, 2).cuda(), device_ids=[torch.cuda.current_device()]
)
model(x).sum().backward()
assert torch.equal(model.module.weight.grad[0], x)  # the average of equal gradients
large = torch.nn.Linear(1 << 14, 1 << 14, device="cuda")  # 1 GiB
dist.all_reduce(large.weight.data)
objects = [None] * size
dist.all_gather_object(objects, {"rank": rank})
dist.barrier()
print(rank, "of", size)
dist.destroy_process_group()
