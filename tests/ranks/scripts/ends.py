"""A launch that ends badly: a rank fails, ranks share a GPU, or nobody comes to an end."""

import os
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist

rank = int(os.environ["RANK"])
dist.init_process_group("nccl")
if "--forget" not in sys.argv:
    # of a group that has used no GPU yet: each rank waits on the GPU of its number, whatever the current one
    # is
    dist.barrier()
    torch.cuda.set_device(rank)
dist.all_reduce(torch.ones(2, device="cuda"))
if "--fail" in sys.argv and rank == 1:
    raise ValueError("rank 1 gives up")
if "--exit" in sys.argv and rank == 1:
    raise SystemExit(5)
if "--sleep" in sys.argv:
    Path(f"{os.getpid()}.pid").write_text("")
    time.sleep(100)
if "--exit" not in sys.argv:
    dist.barrier()
dist.destroy_process_group()
