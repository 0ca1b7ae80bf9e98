"""Every collective, DistributedDataParallel and FSDP, on the GPUs of a machine and on the host over gloo:
both must agree.
"""

import os
import sys
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed import _functional_collectives as functional
from torch.distributed.checkpoint import load, save
from torch.distributed.checkpoint.state_dict import get_model_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

RANK, SIZE = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
GPU, CPU = torch.device("cuda", int(os.environ["LOCAL_RANK"])), torch.device("cpu")


def numbers(device, count=4, dtype=torch.float32):
    return (torch.arange(count, device=device) + 10 * RANK + 1).to(dtype)


def all_reduce(device):
    for op in (dist.ReduceOp.SUM, dist.ReduceOp.MAX, dist.ReduceOp.MIN, dist.ReduceOp.PRODUCT):
        for dtype in (torch.float32, torch.int64, torch.float16):
            x = numbers(device, dtype=dtype)
            dist.all_reduce(x, op)
            yield x
    x = numbers(device)
    work = dist.all_reduce(x, async_op=True)
    work.wait()
    yield work.get_future().value()[0]


def broadcast(device):
    x = numbers(device)
    dist.broadcast(x, SIZE - 1)
    yield x


def reduce(device):
    x = numbers(device)
    dist.reduce(x, 0)
    if RANK == 0:
        yield x


def all_gather(device):
    parts = [torch.empty(4, device=device) for _ in range(SIZE)]
    dist.all_gather(parts, numbers(device))
    yield from parts
    whole = torch.empty(4 * SIZE, device=device)
    dist.all_gather_into_tensor(whole, numbers(device))
    yield whole


def reduce_scatter(device):
    part = torch.empty(2, device=device)
    dist.reduce_scatter_tensor(part, numbers(device, 2 * SIZE))
    yield part
    given = [numbers(device, 2) * (1 + i) for i in range(SIZE)]
    try:
        dist.reduce_scatter(part, given)
    except RuntimeError as error:
        if device != CPU or "does not support reduce_scatter" not in str(error):
            raise
        whole = torch.stack(given)  # gloo of torch 2.6
        dist.all_reduce(whole)
        part.copy_(whole[RANK])
    yield part


def all_to_all(device):
    out = torch.empty(2 * SIZE, device=device)
    dist.all_to_all_single(out, numbers(device, 2 * SIZE))
    yield out
    give = [1 + (RANK + peer) % 2 for peer in range(SIZE)]  # symmetric: what one gives, the other gets
    out = torch.empty(sum(give), device=device)
    dist.all_to_all_single(out, numbers(device, sum(give)), give, give)
    yield out


def gather_and_scatter(device):
    parts = [torch.empty(4, device=device) for _ in range(SIZE)] if RANK == 1 else None
    dist.gather(numbers(device), parts, 1)
    yield from parts or ()
    out = torch.empty(3, device=device)
    dist.scatter(out, [numbers(device, 3) + i for i in range(SIZE)] if RANK == 0 else None, 0)
    yield out


def point_to_point(device):
    after, before = (RANK + 1) % SIZE, (RANK - 1) % SIZE
    out = torch.empty(4, device=device)
    for request in dist.batch_isend_irecv(
        [dist.P2POp(dist.isend, numbers(device), after), dist.P2POp(dist.irecv, out, before)]
    ):
        request.wait()
    yield out
    out = torch.empty(4, device=device)
    if RANK == 0:
        dist.send(numbers(device), 1)
    elif RANK == 1:
        dist.recv(out, 0)
        yield out


def coalesced(device):
    xs = [numbers(device), numbers(device, 3)]
    with dist._coalescing_manager(device=device if device.type == "cuda" else None):
        for x in xs:
            dist.all_reduce(x)
    yield from xs


def functional_ones(device):
    yield functional.all_reduce(numbers(device), "sum", dist.group.WORLD)
    yield functional.all_gather_tensor(numbers(device), 0, dist.group.WORLD)
    yield functional.reduce_scatter_tensor(numbers(device, 2 * SIZE), "sum", 0, dist.group.WORLD)


def subgroup(device):
    group = dist.new_group([0, 1])
    x = numbers(device)
    if RANK < 2:
        dist.all_reduce(x, group=group)
    yield x


def objects(device):
    got = [None] * SIZE
    dist.all_gather_object(got, {"rank": RANK})
    yield torch.tensor([each["rank"] for each in got])
    one = ["a" * RANK]
    dist.broadcast_object_list(one, 1)
    yield torch.tensor(len(one[0]))


class _Unused(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner, self.never = inner, nn.Linear(3, 3)

    def forward(self, x):
        return self.inner(x)


def train(device, **options):
    torch.manual_seed(RANK)
    model = nn.Sequential(nn.Linear(8, 16, bias=False), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 4))
    if "find_unused_parameters" in options:
        model = _Unused(model)
    model = nn.parallel.DistributedDataParallel(model.to(device), **options)
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
    for step in range(3):
        generator = torch.Generator().manual_seed(100 * step + RANK)
        x = torch.randn(6, 8, generator=generator).to(device)
        y = torch.randint(0, 4, (6,), generator=generator).to(device)
        if step == 1:
            with model.no_sync():
                nn.functional.cross_entropy(model(x), y).backward()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
        optimizer.zero_grad()
    yield from model.state_dict().values()


def twice(device, **options):
    """Two forward passes for one backward, as critics have it; the output of a third is left."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1))
    if "find_unused_parameters" in options:
        model = _Unused(model)
    model = nn.parallel.DistributedDataParallel(model.to(device), **options)
    for step in range(3):
        generator = torch.Generator().manual_seed(100 * step + RANK)
        real, made = torch.randn(2, 6, 8, generator=generator).to(device)
        (model(made) - model(real)).mean().backward()
        model(made)
        yield from (parameter.grad for parameter in model.parameters() if parameter.grad is not None)
        model.zero_grad()


def ddp(device):
    yield from twice(device)
    yield from twice(device, find_unused_parameters=True)
    yield from train(device)
    yield from train(device, find_unused_parameters=True)
    yield from train(device, gradient_as_bucket_view=True)
    yield from train(device, static_graph=True)


def fsdp(device):
    torch.manual_seed(0)
    blocks = [
        nn.Sequential(nn.LayerNorm(16), nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 16)) for _ in range(2)
    ]
    model = nn.Sequential(nn.Embedding(20, 16), *blocks, nn.Linear(16, 20)).to(device)
    mesh = init_device_mesh(device.type, (SIZE,))
    for block in (*blocks, model):
        fully_shard(block, mesh=mesh)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-2)
    for step in range(2):
        generator = torch.Generator().manual_seed(100 * step + RANK)
        x, y = torch.randint(0, 20, (2, 4, 6), generator=generator).to(device)
        nn.functional.cross_entropy(model(x).flatten(0, 1), y.flatten()).backward()
        yield nn.utils.clip_grad_norm_(model.parameters(), 1.0).full_tensor()
        optimizer.step()
        optimizer.zero_grad()
    parameter = next(model.parameters())
    assert parameter.device == device == parameter.to_local().device
    checkpoint = {"model": get_model_state_dict(model)}
    kept = {name: value.full_tensor().clone() for name, value in checkpoint["model"].items()}
    folder = Path(sys.argv[1], device.type)
    save(checkpoint, checkpoint_id=folder)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
    load(checkpoint, checkpoint_id=folder)
    for name, value in get_model_state_dict(model).items():
        assert torch.equal(value.full_tensor(), kept[name]), name
        yield kept[name]


def refused():
    """What real torch says, in its words."""
    model = nn.Sequential(nn.Linear(2, 2).to("cuda:0"), nn.Linear(2, 2).to("cuda:1"))
    try:
        nn.parallel.DistributedDataParallel(model, device_ids=[GPU])
    except ValueError as error:
        assert (
            "multiple devices" in str(error)
            or "multiple device" in str(error)
            or "module parameters" in str(error)
        ), error
    else:
        raise AssertionError("a model on two GPUs was taken with device_ids")
    broken = nn.parallel.DistributedDataParallel(_Unused(nn.Linear(3, 3)).to(GPU))
    broken(torch.ones(1, 3, device=GPU))  # no step began: the next forward pass is fine
    broken(torch.ones(1, 3, device=GPU)).sum().backward()
    try:
        broken(torch.ones(1, 3, device=GPU))
    except RuntimeError as error:
        assert "Expected to have finished reduction in the prior iteration" in str(error), error
        assert f"rank {RANK}: 2 3" in str(error), error
    else:
        raise AssertionError("unused parameters went unnoticed")


def without_values():
    """Too large for values: shapes and devices only."""
    large = torch.empty(1 << 20, 3, device=GPU)
    dist.all_reduce(large)
    whole = torch.empty(SIZE << 20, 3, device=GPU)
    dist.all_gather_into_tensor(whole, large)
    assert (whole.shape, whole.device) == ((SIZE << 20, 3), GPU)


def host_averages():
    """torch 2.8's gloo adds where a reduce-scatter is to average."""
    part = torch.zeros(1)
    dist.reduce_scatter_tensor(part, torch.ones(SIZE), op=dist.ReduceOp.AVG)
    return part.item() == 1


torch.cuda.set_device(GPU)
dist.init_process_group("cpu:gloo,cuda:nccl")
assert dist.get_backend() == "cpu:gloo,cuda:nccl" and torch.cuda.device_count() == 2
CASES = [
    all_reduce,
    broadcast,
    reduce,
    all_gather,
    reduce_scatter,
    all_to_all,
    gather_and_scatter,
    point_to_point,
    coalesced,
]
if hasattr(torch.cpu.Stream, "record_event") and host_averages():  # fully_shard on the host, to compare with
    CASES.append(fsdp)
for case in [*CASES, functional_ones, subgroup, objects, ddp]:
    there, here = list(case(GPU)), list(case(CPU))
    assert len(there) == len(here), case.__name__
    for one, other in zip(there, here, strict=True):
        assert case is objects or one.device == GPU, (case.__name__, one.device)
        assert torch.allclose(one.cpu().double(), other.double(), rtol=0, atol=1e-6), (
            case.__name__,
            one,
            other,
        )
refused()
without_values()
dist.barrier()
if "--bug" in sys.argv:
    torch.ones(3, device=GPU) + torch.ones(3)
Path(sys.argv[1], f"{RANK}.done").write_text("")
dist.destroy_process_group()
