# samedevice run --machine 2x24GB --launcher torchrun --nproc 2 sync_batchnorm.py
import os, torch, torch.distributed as dist
dist.init_process_group("nccl"); r = int(os.environ["LOCAL_RANK"]); torch.cuda.set_device(r)
m = torch.nn.SyncBatchNorm.convert_sync_batchnorm(torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4))).cuda()
m = torch.nn.parallel.DistributedDataParallel(m, device_ids=[r])
m(torch.randn(2, 3, 8, 8, device="cuda")).sum().backward()
print(f"done {r}"); dist.destroy_process_group()

# /// expect
# must = "works"
# command = "run --machine 2x24GB --launcher torchrun --nproc 2"
# exit = 0
# prints = ["done 0", "done 1"]
# ///
