"""Single-process data parallelism, autocast and gradient scaling on virtual GPUs."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn
from torch.cuda import comm, nccl

from samedevice.errors import UnsupportedFeatureError
from samedevice.runtime.state import VALUE_LIMIT

pytestmark = [pytest.mark.virtual("3x24GB"), pytest.mark.usefixtures("machine")]


def small_model():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8).eval(), nn.ReLU(), nn.Linear(8, 2))


@pytest.mark.parametrize("input_device", ["cuda", "cpu"])
@pytest.mark.parametrize("device_ids", [None, [0, 1], [2, 0]])
def test_data_parallel_equals_the_host(device_ids, input_device):
    host = small_model()
    x = torch.randn(7, 4)
    first = 0 if device_ids is None else device_ids[0]
    parallel = nn.DataParallel(copy.deepcopy(host).cuda(first), device_ids=device_ids)
    wanted, got = host(x), parallel(x.cuda(first) if input_device == "cuda" else x)
    assert got.device == torch.device("cuda", first)
    torch.testing.assert_close(got.cpu(), wanted)
    wanted.pow(2).sum().backward()
    got.pow(2).sum().backward()
    for theirs, ours in zip(parallel.parameters(), host.parameters(), strict=True):
        assert theirs.grad.device == torch.device("cuda", first)
        torch.testing.assert_close(theirs.grad.cpu(), ours.grad)


def test_data_parallel_keeps_the_values_of_gradients_that_it_sums_in_one_buffer():
    torch.manual_seed(0)
    host = nn.Sequential(*(nn.Linear(256, 256) for _ in range(6)))
    assert sum(parameter.nbytes for parameter in host.parameters()) > VALUE_LIMIT
    parallel = nn.DataParallel(copy.deepcopy(host).cuda(), device_ids=[0, 1])
    x = torch.randn(8, 256)
    for model, given in ((host, x), (parallel, x.cuda())):
        model(given).pow(2).mean().backward()
    for theirs, ours in zip(parallel.parameters(), host.parameters(), strict=True):
        torch.testing.assert_close(theirs.grad.cpu(), ours.grad)


@pytest.mark.parametrize("device_ids", [[0, 1], [1, 0]])
def test_data_parallel_with_weights_that_are_not_trained(device_ids):
    class Adapted(nn.Module):
        def __init__(self):
            super().__init__()
            self.frozen = nn.Linear(4, 8).half().requires_grad_(False)
            self.trained = nn.Linear(8, 2)

        def forward(self, x):
            return self.trained(self.frozen(x.half()).float())

    model = Adapted().cuda(device_ids[0])
    nn.DataParallel(model, device_ids=device_ids)(torch.ones(6, 4).cuda(device_ids[0])).sum().backward()
    assert model.frozen.weight.grad is None
    assert model.trained.weight.grad.device.index == device_ids[0]
    assert model.trained.bias.grad.tolist() == [6, 6]


def test_data_parallel_gathers_where_it_is_told():
    parallel = nn.DataParallel(small_model().cuda(), output_device=1)
    assert parallel(torch.randn(6, 4, device="cuda")).device == torch.device("cuda", 1)


def test_the_model_must_be_on_the_first_device():
    parallel = nn.DataParallel(small_model().cuda(1), device_ids=[0, 1])
    with pytest.raises(RuntimeError, match="module must have its parameters and buffers on device cuda:0"):
        parallel(torch.randn(6, 4, device="cuda"))


def test_broadcast():
    x = torch.arange(4.0, device="cuda:0")
    copies = comm.broadcast(x, [0, "cuda:2"])
    assert [one.device.index for one in copies] == [0, 2]
    assert copies[0] is x
    out = [torch.empty(4, device="cuda:1"), torch.empty(4, device="cuda:2")]
    comm.broadcast(x, out=out)
    assert out[1].tolist() == x.tolist()
    with pytest.raises(RuntimeError, match="Exactly one of"):
        comm.broadcast(x)
    with pytest.raises(RuntimeError, match="same shape"):
        comm.broadcast(x, out=[torch.empty(3, device="cuda:1")])
    rows = comm.broadcast_coalesced([x, x + 1], [0, 1])
    assert [[one.device.index for one in row] for row in rows] == [[0, 0], [1, 1]]
    with pytest.raises(RuntimeError, match=r"All tensors must be on devices\[0\]"):
        comm.broadcast_coalesced([x], [1, 0])


def test_reduce_add():
    x = torch.arange(4.0, device="cuda:0")
    total = comm.reduce_add([x, x.to("cuda:1")], destination=1)
    assert total.device.index == 1
    assert total.tolist() == [0.0, 2.0, 4.0, 6.0]
    (first, second) = comm.reduce_add_coalesced([[x, x + 1], [x.to("cuda:1"), x.to("cuda:1")]], destination=0)
    assert first.tolist() == [0.0, 2.0, 4.0, 6.0]
    assert second.tolist() == [1.0, 3.0, 5.0, 7.0]


def test_scatter_and_gather():
    x = torch.arange(12.0).reshape(2, 6)
    parts = comm.scatter(x, [0, 1, 2], dim=1)
    assert [part.device.index for part in parts] == [0, 1, 2]
    assert [tuple(part.shape) for part in parts] == [(2, 2)] * 3
    assert torch.equal(comm.gather(parts, dim=1, destination="cpu"), x)
    assert comm.gather(parts, dim=1).device.index == 0
    uneven = comm.scatter(x, [0, 2], chunk_sizes=[5, 1], dim=-1)
    assert [part.shape[1] for part in uneven] == [5, 1]
    out = torch.empty(2, 6, device="cuda:1")
    comm.gather(uneven, dim=-1, out=out)
    assert torch.equal(out.cpu(), x)
    comm.scatter(x, out=list(uneven), dim=1)
    with pytest.raises(RuntimeError, match="CUDA tensors"):
        comm.gather([x, x], destination=0)
    with pytest.raises(RuntimeError, match="same length"):
        comm.scatter(x, [0, 1], chunk_sizes=[6], dim=1)


def test_scatter_and_gather_say_what_does_not_fit():
    x = torch.arange(12.0).reshape(2, 6)
    out = [torch.empty(1, 6, device="cuda:0"), torch.empty(1, 6, device="cuda:1")]
    comm.scatter(x, out=out, dim=-2)
    assert out[1].tolist() == x[1:].tolist()
    with pytest.raises(
        RuntimeError,
        match=r"index 1 has incorrect shape: \[6\]. Expected same shape except for scatter dim 0",
    ):
        comm.scatter(x, out=[out[0], out[1][0]], dim=-2)
    with pytest.raises(
        RuntimeError, match="Total size for output tensors along scatter dim 0 does not match"
    ):
        comm.scatter(x, out=out[:1])
    with pytest.raises(
        RuntimeError,
        match=r"stream at index 1 \(was 0\) to match the device supplied at that index \(expected 1\)",
    ):
        comm.scatter(x, [0, 1], streams=[None, torch.cuda.Stream(0)])
    with pytest.raises(
        RuntimeError, match="same number of dimensions, but tensor at index 1has 1 dimensions"
    ):
        comm.gather([out[0], out[1][0]])
    with pytest.raises(RuntimeError, match=r"index 1 has invalid shape \[1, 3\], but expected \[1, 6\]"):
        comm.gather([out[0], out[1][:, :3]])
    with pytest.raises(RuntimeError, match=r"out tensor to have shape \[2, 6\], but got \[3, 6\]"):
        comm.gather(out, out=torch.empty(3, 6))
    with pytest.raises(RuntimeError, match="at least one tensor to gather from"):
        comm.gather([], out=torch.empty(3, 6))


def test_what_is_gathered_keeps_its_memory_format():
    parts = comm.scatter(torch.randn(4, 3, 8, 8).contiguous(memory_format=torch.channels_last), [0, 1])
    assert all(part.is_contiguous(memory_format=torch.channels_last) for part in parts)
    assert comm.gather(parts).is_contiguous(memory_format=torch.channels_last)
    assert comm.gather([parts[0], parts[1].contiguous()]).is_contiguous()


def row(*values):
    """One tensor on each GPU, from the first one on."""
    return [torch.tensor(value, device=f"cuda:{place}") for place, value in enumerate(values)]


@pytest.mark.parametrize(
    ("op", "wanted"),
    [(0, [5.0, 9.0]), (1, [6.0, 20.0]), (2, [3.0, 5.0]), (3, [2.0, 4.0]), (4, [2.5, 4.5])],
)
def test_nccl_reduces_among_the_gpus_of_one_process(op, wanted):
    inputs = row([2.0, 4.0], [3.0, 5.0])
    outputs = [torch.empty_like(each) for each in inputs]
    nccl.all_reduce(inputs, outputs, op=op)
    assert [each.tolist() for each in outputs] == [wanted, wanted]
    assert inputs[0].tolist() == [2.0, 4.0]
    nccl.reduce(inputs, output=outputs[1].zero_(), root=1, op=op)
    assert outputs[1].tolist() == wanted
    nccl.all_reduce(inputs, op=op)
    assert inputs[1].tolist() == wanted


def test_an_average_is_that_of_nccl():
    halves = [each.half() for each in row([60000.0], [60000.0])]
    nccl.all_reduce(halves, op=4)
    assert halves[0].tolist() == [60000.0]
    numbers = row([-7], [0])
    nccl.all_reduce(numbers, op=4)
    assert numbers[1].tolist() == [-3]


def test_nccl_hands_parts_around():
    inputs = row([1, 2], [3, 4])
    wholes = row([0] * 4, [0] * 4)
    nccl.all_gather(inputs, wholes)
    assert [each.tolist() for each in wholes] == [[1, 2, 3, 4]] * 2
    nccl.reduce_scatter(wholes, inputs)
    assert [each.tolist() for each in inputs] == [[2, 4], [6, 8]]
    nccl.broadcast(inputs, root=1)
    assert [each.tolist() for each in inputs] == [[6, 8], [6, 8]]


def test_nccl_takes_no_memory_and_what_is_too_large_has_no_values():
    torch.cuda.reset_peak_memory_stats()
    inputs = [torch.ones(1 << 28, device=f"cuda:{place}") for place in (0, 1)]
    peak = torch.cuda.max_memory_allocated(0)
    nccl.all_reduce(inputs)
    assert torch.cuda.max_memory_allocated(0) == peak == 1 << 30


@pytest.mark.parametrize(
    ("inputs", "outputs", "message"),
    [
        (lambda: [], lambda: [], "input sequence can't be empty"),
        (lambda: row([1.0]), lambda: row([1.0], [1.0]), "input of length 1 and output of length 2"),
        (lambda: [torch.ones(1)], lambda: row([1.0]), "have to be cuda dense Tensors"),
        (lambda: row([1.0], [1]), lambda: row([1.0], [1.0]), "of the same Tensor dtype"),
        (lambda: row([1.0], [1.0, 1.0]), lambda: row([1.0], [1.0]), "same number of elements"),
        (lambda: row([1.0], [1.0]), lambda: row([1.0], [1.0])[::-1], "must be on the same device"),
        (lambda: row([1.0], [1.0]), lambda: row([1.0], [1.0, 1.0]), "of size input_size"),
        (lambda: row([1.0]) * 2, lambda: row([1.0]) * 2, "inputs must be on unique devices"),
        (lambda: [torch.ones(2, 3, device="cuda").T], lambda: row([1.0]), "have to be contiguous"),
        (lambda: row([1.0j]), lambda: row([1.0j]), "Unconvertible NCCL type ComplexFloat"),
    ],
)
def test_nccl_refuses_what_it_refuses_on_gpus(inputs, outputs, message):
    with pytest.raises(RuntimeError, match=message):
        nccl.all_reduce(inputs(), outputs())


def test_nccl_is_there_for_dense_tensors_on_gpus_of_their_own():
    assert nccl.version() >= (2, 20)
    assert nccl.is_available(row([1.0], [1.0]))
    assert not nccl.is_available(row([1.0]) * 2)
    assert not nccl.is_available([torch.ones(1)])
    with pytest.raises(UnsupportedFeatureError, match="init_rank"):
        nccl.init_rank(2, b"", 0)
    with pytest.raises(RuntimeError, match="invalid root"):
        nccl.broadcast(row([1.0], [1.0]), root=2)
    with pytest.raises(RuntimeError, match="invalid argument"):
        nccl.all_reduce(row([1.0]), op=9)


def test_nccl_wants_tensors():
    with pytest.raises(TypeError, match=r"expected Tensor at 1 \(got int\)"):
        nccl.all_reduce([torch.ones(1, device="cuda"), 2])


def test_gradients_are_reduced_without_autograd_seeing_it():
    weights = [each.requires_grad_() for each in row([1.0], [2.0])]
    nccl.all_reduce(weights)
    assert [each.tolist() for each in weights] == [[3.0], [3.0]]
    assert all(each.is_leaf and each.grad_fn is None for each in weights)


def test_gradient_scaling_steps():
    model = small_model().cuda()
    before = model[0].weight.detach().clone()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cuda", init_scale=1024.0, growth_interval=1)
    assert scaler.is_enabled()
    with torch.autocast("cuda", dtype=torch.float16):
        out = model(torch.randn(3, 4, device="cuda"))
        assert out.dtype == torch.float16
        loss = out.float().pow(2).sum()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    assert scaler.get_scale() == 2048.0
    assert not torch.equal(model[0].weight, before)


@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_the_old_names_of_automatic_mixed_precision():
    scaler = torch.cuda.amp.GradScaler()
    assert scaler.is_enabled()
    with torch.cuda.amp.autocast(dtype=torch.bfloat16):
        x = torch.ones(2, 2, device="cuda")
        assert (x @ x).dtype == torch.bfloat16


def test_a_loader_with_pinned_memory_and_workers():
    data = torch.utils.data.TensorDataset(torch.arange(8.0))
    loader = torch.utils.data.DataLoader(data, batch_size=4, pin_memory=True, num_workers=1)
    batches = [batch.to("cuda", non_blocking=True) for (batch,) in loader]
    assert [batch.device.type for batch in batches] == ["cuda", "cuda"]
