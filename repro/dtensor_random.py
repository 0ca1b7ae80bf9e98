# samedevice run --machine 2x24GB --launcher torchrun --nproc 2 dtensor_random.py
import os, torch, torch.distributed as dist
from torch.distributed.fsdp import fully_shard
torch.cuda.set_device(int(os.environ["LOCAL_RANK"])); dist.init_process_group("nccl")
with torch.device("meta"): m = torch.nn.Linear(4, 4)
fully_shard(m); m.to_empty(device="cuda"); m.reset_parameters(); print("ok"); dist.destroy_process_group()

# /// expect
# must = "FSDP2's start on the meta device works"
# command = "run --machine 2x24GB --launcher torchrun --nproc 2"
# exit = 0
# prints = ["ok"]
# ///
