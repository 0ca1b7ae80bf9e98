import os, torch
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard, rand, distribute_tensor
import torch.nn.functional as F
rank = int(os.environ["LOCAL_RANK"]); torch.cuda.set_device(rank)
mesh = init_device_mesh("cuda", (2,))
def t(n, f):
    try: f(); print(f"{n} ok")
    except BaseException as e: print(f"{n} {type(e).__name__} {str(e)[:80]}")
t("dtensor.rand", lambda: rand(8, 4, device_mesh=mesh, placements=[Shard(0)]))
d = distribute_tensor(torch.zeros(8, 4, device="cuda"), mesh, [Shard(0)])
t("dropout", lambda: F.dropout(d, 0.5, training=True))
t("uniform_", lambda: d.uniform_())
t("rand_like", lambda: torch.rand_like(d))
torch.distributed.destroy_process_group()

# /// expect
# must = "random operators on DTensors work"
# command = "run --machine 2x24GB --launcher torchrun --nproc 2"
# exit = 0
# prints = ["dtensor.rand ok", "dropout ok", "uniform_ ok", "rand_like ok"]
# long = true
# ///
