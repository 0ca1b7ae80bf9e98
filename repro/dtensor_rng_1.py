# torchrun --nproc 2: FSDP2's documented meta init. NotImplementedError: no rule for HigherOrderOperator run_dtensor_rng_op
import os, torch
from torch.distributed.fsdp import fully_shard
rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(rank)
torch.distributed.init_process_group("nccl", device_id=torch.device("cuda", rank))
with torch.device("meta"):
    m = torch.nn.Embedding(8, 4)
fully_shard(m)
m.to_empty(device="cuda")
m.reset_parameters()
print("ok")
torch.distributed.destroy_process_group()

# /// expect
# must = "FSDP2's start on the meta device works"
# command = "run --machine 2x24GB --launcher torchrun --nproc 2"
# exit = 0
# prints = ["ok"]
# long = true
# ///
