# samedevice run --machine 2x24GB --launcher torchrun --nproc 2 ddp_model_on_gpu0.py: every rank puts its model on cuda:0
import os
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
dist.init_process_group("nccl")
rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(rank)
model = DistributedDataParallel(torch.nn.Linear(4, 4).to("cuda:0"), device_ids=[rank])
model(torch.ones(2, 4, device=f"cuda:{rank}")).sum().backward()
dist.destroy_process_group()

# /// expect
# must = "both ranks' model on one GPU"
# needs = ["torch<2.15"]
# command = "run --machine 2x24GB --launcher torchrun --nproc 2"
# exit = 1
# findings = [{code = "SD107", ranks = "[0, 1]", op = "c10d.allgather_.default"}, {code = "SD101", op = "aten.addmm.default"}]
# ///
