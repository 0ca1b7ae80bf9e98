"""Groups bound to a device are split: by a mesh, as transformers' tensor parallelism makes one, and by
`split_group` and `new_group`.
"""

import os
import sys

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh

rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
torch.cuda.set_device(device)
backend, assumed = sys.argv[1], "--assumed" in sys.argv
dist.init_process_group(backend, device_id=device)
mesh = init_device_mesh("cuda", (2, size // 2), mesh_dim_names=("replicate", "shard"))
across, within = mesh["replicate"].get_group(), mesh["shard"].get_group()
assert dist.get_process_group_ranks(within) == [
    rank // (size // 2) * (size // 2) + i for i in range(size // 2)
]
for group in (across, within):
    x = torch.full((3,), float(rank + 1), device=device)
    dist.all_reduce(x, group=group)
    givers = [rank] * group.size() if assumed else dist.get_process_group_ranks(group)
    assert x.tolist() == [sum(each + 1.0 for each in givers)] * 3, (x, group.size())
pair = dist.split_group(split_ranks=[[0, 1]])
member = isinstance(pair, dist.ProcessGroup)  # others get None, from torch 2.15 on a constant
assert member == (rank < 2)
# torch 2.6 numbers groups, and ranks that are in no part of a split count one less: gloo never meets then
if not (across.group_name.isdecimal() and "gloo" in backend):
    fresh = dist.new_group([0, size - 1])
    if rank in (0, size - 1):
        dist.barrier(group=fresh)
if member:
    parts = [torch.empty(2, device=device) for _ in range(2)]
    dist.all_gather(parts, torch.full((2,), float(rank), device=device), group=pair)
    assert [part[0].item() for part in parts] == ([rank] * 2 if assumed else [0, 1])
    if "gloo" in backend and not assumed and torch.device("cpu") in pair._device_types:  # not in torch 2.6
        host = torch.ones(2)
        dist.all_reduce(host, group=pair)
        assert host.tolist() == [2, 2]
dist.barrier()
dist.destroy_process_group()
dist.init_process_group("nccl", device_id=device)  # groups of the same names once more
x = torch.ones(2, device=device)
dist.all_reduce(x)
assert x.tolist() == [size, size]
dist.destroy_process_group()
print(f"{rank} split\n", end="")
