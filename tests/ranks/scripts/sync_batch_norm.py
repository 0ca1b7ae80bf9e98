"""SyncBatchNorm on two ranks computes what BatchNorm computes on the whole batch on the CPU."""

import copy
import os

import torch
import torch.distributed as dist
from torch import nn

rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(rank)
dist.init_process_group("nccl")


def check(model: nn.Module, x: torch.Tensor, counts: tuple[int, int]) -> None:
    """Train one step on a part of the batch each, and compare."""
    torch.manual_seed(0)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn_like(parameter))
    state = {name: value.clone() for name, value in model.state_dict().items()}
    x = x.clone().requires_grad_()
    loss = model(x).tanh().sum()
    loss.backward()
    synced = nn.SyncBatchNorm.convert_sync_batchnorm(copy.deepcopy(model)).cuda()
    synced.load_state_dict(state)
    synced.zero_grad(set_to_none=True)
    parallel = nn.parallel.DistributedDataParallel(synced, device_ids=[rank])
    mine = x.detach().split(counts)[rank].cuda().requires_grad_()
    (2 * parallel(mine).tanh().sum()).backward()  # DDP takes the mean
    for name, value in model.state_dict().items():
        assert torch.allclose(value, synced.state_dict()[name].cpu(), atol=1e-5), name
    for (name, one), other in zip(model.named_parameters(), synced.parameters(), strict=True):
        assert torch.allclose(one.grad, other.grad.cpu(), atol=1e-4), name
    assert torch.allclose(x.grad.split(counts)[rank] * 2, mine.grad.cpu(), atol=1e-4)


generator = torch.Generator().manual_seed(1)
images = torch.randn(6, 3, 5, 5, generator=generator) * 3 + 1
check(nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4)), images, (3, 3))
check(nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4, momentum=None)), images, (1, 5))
check(
    nn.Sequential(nn.Linear(7, 4), nn.BatchNorm1d(4, affine=False)),
    torch.randn(6, 7, generator=generator),
    (2, 4),
)

half = nn.SyncBatchNorm(4).cuda()
with torch.autocast("cuda", dtype=torch.bfloat16):
    out = half(nn.Conv2d(3, 4, 3).cuda()(images.cuda()))
out.float().sum().backward()
assert out.dtype == torch.bfloat16 and half.weight.grad.dtype == torch.float32
large = half(torch.randn(64, 4, 128, 128, device="cuda"))
assert large.shape == (64, 4, 128, 128)
half.eval()(torch.randn(2, 4, 3, 3, device="cuda"))
print("done")
dist.destroy_process_group()
