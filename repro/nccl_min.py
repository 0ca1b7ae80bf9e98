import os, torch, torch.distributed as dist, samedevice as sd
os.environ.update(RANK="0", LOCAL_RANK="0", WORLD_SIZE="8")
with sd.machine("8xA100-80G", assumed_ranks=8) as vm:
    dist.init_process_group("nccl")
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 4).cuda())
    model(torch.ones(2, 4, device="cuda")).sum().backward()
    dist.destroy_process_group()
print(vm.memory()["cuda:0"].peak_allocated)

# /// expect
# must = "works"
# command = "python"
# exit = 0
# ///
