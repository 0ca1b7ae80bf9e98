# torch 2.15, TORCH_DIST_USE_NCCL2=0, torchrun --nproc 2
import os, torch, torch.distributed as dist
r = int(os.environ["LOCAL_RANK"]); torch.cuda.set_device(r); dist.init_process_group("nccl")
o = torch.empty(2, device="cuda"); dist.all_gather_into_tensor(o, torch.ones(1, device="cuda")); print(o)

# /// expect
# must = "works"
# command = "run --machine 2x24GB --launcher torchrun --nproc 2"
# exit = 0
# prints = ["tensor([1., 1.], device='cuda:0')"]
# long = true
# ///
