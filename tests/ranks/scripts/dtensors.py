"""Random operators on DTensors, and FSDP2's start from the meta device."""

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor, rand

rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(rank)
torch.manual_seed(0)
mesh = init_device_mesh("cuda", (2,))


def differ(tensor: torch.Tensor) -> bool:
    """Whether the ranks hold different numbers."""
    others = [torch.empty_like(tensor) for _ in range(2)]
    dist.all_gather(others, tensor.contiguous())
    return not torch.equal(others[0], others[1])


sharded = distribute_tensor(torch.ones(8, 64, device="cuda"), mesh, [Shard(0)])
same = distribute_tensor(torch.ones(8, 64, device="cuda"), mesh, [Replicate()])
for draw in (
    lambda x: nn.functional.dropout(x, 0.5),
    torch.rand_like,
    lambda x: x.clone().uniform_(),
    lambda x: torch.bernoulli(x * 0.5),
):
    assert differ(draw(sharded).to_local())
    assert not differ(draw(same).to_local())
drawn = rand(8, 4, device_mesh=mesh, placements=[Shard(0)])
assert drawn.to_local().shape == (4, 4) and differ(drawn.to_local())
assert not differ(torch.cuda.get_rng_state().cuda().float()), "every rank goes on from the same place"

state = torch.cuda.get_rng_state()
first = nn.functional.dropout(sharded, 0.5).to_local()
torch.cuda.set_rng_state(state)
assert torch.equal(nn.functional.dropout(sharded, 0.5).to_local(), first)
generator = torch.Generator(device="cuda").manual_seed(3)
one = nn.init.trunc_normal_(sharded.clone(), generator=generator).to_local()
assert torch.equal(
    nn.init.trunc_normal_(sharded.clone(), generator=generator.manual_seed(3)).to_local(), one
) and differ(one)

with torch.device("meta"):
    model = nn.Sequential(nn.Embedding(8, 16), nn.Linear(16, 16), nn.Dropout(0.5), nn.LayerNorm(16))
for layer in model:
    fully_shard(layer)
fully_shard(model)
model.to_empty(device="cuda")
for module in model.modules():
    if hasattr(module, "reset_parameters"):
        module.reset_parameters()
weight = model[1].weight
assert isinstance(weight, DTensor) and weight.to_local().device == torch.device("cuda", rank)
assert differ(weight.to_local()) and weight.full_tensor().abs().max().item() <= 0.25
optimizer = torch.optim.AdamW(model.parameters(), 1e-2)
before = weight.full_tensor().clone()
model(torch.arange(8, device="cuda")).square().sum().backward()
optimizer.step()
assert not torch.equal(weight.full_tensor(), before)
print("done")
dist.destroy_process_group()
