import os, sys, torch, traceback
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard, rand, distribute_tensor
rank = int(os.environ["LOCAL_RANK"]); torch.cuda.set_device(rank); torch.manual_seed(0)
mesh = init_device_mesh("cuda", (2,))
d = distribute_tensor(torch.zeros(8, 4, device="cuda"), mesh, [Shard(0)])
def t(n, f):
    try: f(); print(f"{n} ok")
    except BaseException as e: rank==0 and traceback.print_exc()
t("uniform_", lambda: d.uniform_())
t("dtensor.rand", lambda: rand(8, 4, device_mesh=mesh, placements=[Shard(0)]))
torch.distributed.destroy_process_group()

# /// expect
# must = "random operators on DTensors work"
# command = "run --machine 2x24GB --launcher torchrun --nproc 2"
# exit = 0
# prints = ["dtensor.rand ok", "uniform_ ok"]
# long = true
# ///
