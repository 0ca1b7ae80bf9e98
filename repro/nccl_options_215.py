import torch, torch.distributed as dist
dist.init_process_group("nccl")
print(dist.get_backend()); dist.destroy_process_group()

# /// expect
# must = "works"
# command = "run --machine 1x24GB --launcher torchrun --nproc 1"
# exit = 0
# prints = ["nccl"]
# long = true
# ///
