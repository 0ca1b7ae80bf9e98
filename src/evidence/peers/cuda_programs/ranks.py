"""Two ranks train a torchvision model with synchronized batch norm, and end with the same numbers."""

import os

import torch
import torch.distributed as dist
import torchvision

rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(rank)
dist.init_process_group("nccl")
torch.manual_seed(0)
model = torch.nn.SyncBatchNorm.convert_sync_batchnorm(torchvision.models.squeezenet1_1(num_classes=2)).cuda()
head = torch.nn.SyncBatchNorm(2).cuda()
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Sequential(model, head), device_ids=[rank])
optimizer = torch.optim.SGD(model.parameters(), 0.01)
for _ in range(2):
    model(torch.randn(2, 3, 64, 64, device="cuda")).square().sum().backward()
    optimizer.step()
    optimizer.zero_grad()
both = [torch.empty_like(head.weight) for _ in range(2)]
dist.all_gather(both, head.weight.detach())
assert torch.equal(*both)
print("done")
dist.destroy_process_group()
