# samedevice run --machine 2x24GB --launcher torchrun --nproc 2 dtensor_dropout.py
import os, torch, torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import distribute_tensor, Shard
torch.cuda.set_device(int(os.environ["LOCAL_RANK"])); mesh = init_device_mesh("cuda", (2,))
t = distribute_tensor(torch.zeros(4, 4, device="cuda"), mesh, [Shard(0)])
torch.nn.init.uniform_(t); print(f"ok {t.to_local().device}"); dist.destroy_process_group()

# /// expect
# must = "random operators on DTensors work"
# command = "run --machine 2x24GB --launcher torchrun --nproc 2"
# exit = 0
# prints = ["ok cuda:0", "ok cuda:1"]
# ///
