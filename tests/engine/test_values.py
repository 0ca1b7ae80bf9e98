"""What is known of values: small memory holds them, large memory holds nothing, and unknown values read as
documented.
"""

from __future__ import annotations

import re
import resource

import pytest
import torch

from samedevice.machines import parse_machine
from samedevice.runtime import VirtualMachine
from samedevice.runtime.state.memory import ASSUMED_FLOAT, VALUE_LIMIT, memory_of

pytestmark = pytest.mark.virtual("2xA100-80G", on_mismatch="record", finds_nothing=True)

LARGE = VALUE_LIMIT // 4 + 1
"""Elements of four bytes that are too many to hold values."""


def known(tensor):
    record = memory_of(tensor)
    assert record is not None
    return record.shadow is not None


def assumed(tensor):
    record = memory_of(tensor)
    assert record is not None
    return record.assumed


def unknown_float(*shape):
    """A small tensor whose values nobody knows: part of a large one."""
    return torch.ones(LARGE, device="cuda")[: torch.Size(shape).numel()].view(shape) * 1


def unknown_int(*shape):
    return torch.ones(2 * LARGE, dtype=torch.int32, device="cuda")[: torch.Size(shape).numel()].view(shape)


def resident():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


# -- memory


def test_large_tensors_take_no_memory(machine):
    torch.ones(LARGE, device="cuda").mul(2).sum()  # torch imports a few modules of its own
    before = resident()
    large = torch.ones(10 * 10**9, device="cuda")
    other = (large * 2).sum()
    moved = large[: 5 * 10**9].to("cuda:1")
    assert large.nbytes == 40 * 10**9
    assert moved.sum().device == torch.device("cuda:1")
    assert other.shape == ()
    assert resident() - before < 64 << 20
    assert machine.memory()["cuda:0"].peak_allocated >= 80 * 10**9


def test_large_host_tensors_take_no_memory(machine):
    before = resident()
    large = torch.zeros(10 * 10**9)
    assert large.device == torch.device("cpu")
    assert large.cuda().device == torch.device("cuda:0")
    assert resident() - before < 64 << 20


@pytest.mark.parametrize(
    "grow",
    [
        lambda x: x[:, None] * x[None],
        lambda x: torch.outer(x, x),
        lambda x: x[:, None] >= x[None],
        lambda x: x.repeat(80_000),
        lambda x: torch.nn.functional.pad(x, (0, 6_400_000_000)),
        lambda x: x[:, None] @ x[None],
        lambda x: torch.nn.functional.one_hot(x.long() * 0, 80_000),
        lambda x: x.expand(80_000, -1).clone(),
        lambda x: torch.kron(x, x),
    ],
)
def test_what_grows_large_is_not_computed(machine, grow):
    small = torch.ones(80_000, device="cuda")
    torch.ones(LARGE, device="cuda").mul(2).sum()
    before = resident()
    large = grow(small)
    assert large.numel() >= 6_400_000_000
    assert not known(large)
    assert resident() - before < 256 << 20


def test_small_tensors_hold_values_up_to_the_limit(machine):
    at_limit = torch.ones(VALUE_LIMIT // 4, device="cuda")
    above = torch.ones(LARGE, device="cuda")
    assert known(at_limit)
    assert not known(above)
    assert at_limit.sum().item() == VALUE_LIMIT // 4


# -- joining


def in_one_buffer(machine):
    """Known parts of one large tensor, which begins with zeros and ends with ones."""
    parts = [torch.full((VALUE_LIMIT // 8,), float(number > 0), device="cuda") for number in range(5)]
    return torch.cat(parts)


@pytest.mark.parametrize(
    "compute",
    [
        lambda x: x * 2,
        lambda x: x.clone().mul_(2),
        lambda x: x + x.to("cuda:1").to("cuda:0"),
        lambda x: x.double().float() * 2,
        lambda x: torch.empty_like(x).copy_(x) * 2,
        lambda x: torch.mul(x, 2, out=torch.empty_like(x)),
        lambda x: torch.cat([x[:9] * 2, x[9:] * 2]),
        lambda x: torch.stack([x, x]).sum(0),
    ],
)
def test_what_joins_known_values_keeps_them(machine, compute):
    large = compute(in_one_buffer(machine))
    assert large.nbytes > 2 * VALUE_LIMIT
    assert known(large) and not assumed(large)
    assert (large[0].item(), large[-1].item()) == (0, 2)
    assert large.sum().item() == VALUE_LIMIT


def test_a_list_is_copied_into_parts_of_a_large_buffer(machine):
    parts = [torch.full((VALUE_LIMIT // 8,), float(number), device="cuda") for number in range(3)]
    buffer = torch.empty(3 * VALUE_LIMIT // 8, device="cuda")
    torch._foreach_copy_(list(buffer.split(VALUE_LIMIT // 8)), parts)
    assert [part[0].item() for part in buffer.split(VALUE_LIMIT // 8)] == [0, 1, 2]
    torch._foreach_copy_(list(buffer.split(VALUE_LIMIT // 8)), [*parts[1:], unknown_float(VALUE_LIMIT // 8)])
    assert not known(buffer)


@pytest.mark.parametrize("bring", [lambda x: x.cpu(), lambda x: torch.empty(x.size()).copy_(x)])
def test_what_was_on_the_host_in_between_keeps_its_values(machine, bring):
    """As ZeRO-3 and FSDP collect weights there."""
    host = bring(in_one_buffer(machine))
    assert host.nbytes > 2 * VALUE_LIMIT
    there = torch.empty(host.size(), device="cuda:1").copy_(host)
    for large in (host.cuda(), there):
        assert known(large)
        assert (large[0].item(), large[-1].item()) == (0, 1)
    assert not known(torch.ones(LARGE).cuda())


def test_what_joins_something_unknown_is_unknown(machine):
    assert not known(torch.cat([in_one_buffer(machine), unknown_float(4)]))
    assert not known(in_one_buffer(machine) + unknown_float(1))


def test_what_is_made_large_of_little_is_not_computed(machine):
    joined = in_one_buffer(machine)
    assert not known(joined[:9].expand(LARGE, 9) * 2)
    assert not known(torch.empty(LARGE, device="cuda").zero_() * 2)


# -- reading


def test_an_unknown_float_reads_as_the_assumed_value(machine):
    assert unknown_float(3).sum().item() == ASSUMED_FLOAT
    assert unknown_float(2, 2).tolist() == [[ASSUMED_FLOAT] * 2] * 2
    assert unknown_float(2).cpu().numpy().tolist() == [ASSUMED_FLOAT] * 2
    assert float(unknown_float(1)) == ASSUMED_FLOAT


def test_the_old_constructors_read_scalars(machine):
    scalars = [torch.ones(2, device="cuda:0").sum(), torch.full((), 3.0, device="cuda:1").requires_grad_()]
    made = torch.Tensor(scalars)
    assert (made.device.type, made.tolist()) == ("cpu", [2, 3])
    assert torch.Tensor([scalars, [1.0, 0.0]]).tolist() == [[2, 3], [1, 0]]
    assert torch.LongTensor([scalar.long() for scalar in scalars]).tolist() == [2, 3]
    with pytest.raises(ValueError, match="only one element tensors"):
        torch.Tensor([torch.ones(2, device="cuda:0")])


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.uint8])
def test_an_unknown_integer_reads_as_zero(machine, dtype):
    part = torch.ones(4 * LARGE, dtype=dtype, device="cuda")[:3]
    assert part.tolist() == [0, 0, 0]
    assert part[0].item() == 0
    assert part.cpu().sum().item() == 0


def test_an_unknown_boolean_reads_as_false(machine):
    mask = torch.ones(LARGE, device="cuda")[:3] > 0
    assert not mask.any()
    assert mask.tolist() == [False] * 3


def test_values_that_were_read_are_marked_assumed(machine):
    assert assumed(unknown_float(3).cpu())
    assert assumed((unknown_int(3) + 1).cpu())
    assert not assumed(torch.ones(3, device="cuda").cpu())


def test_unknown_values_are_in_an_order_without_repeats(machine):
    """Each token of a mixture of experts chooses different ones, so that their counts add up."""
    unknown = torch.empty(LARGE, 4, device="cuda")[:6]
    assert not known(unknown)
    chosen = unknown.topk(2, dim=1).indices
    assert chosen.tolist() == [[0, 1]] * 6 and assumed(chosen)
    counts = torch.zeros(6, 4, device="cuda").scatter(1, chosen, 1).sum(0)
    assert counts.tolist() == [6, 6, 0, 0]
    down = torch.sort(unknown, dim=0, stable=True).indices
    assert down[:, 2].tolist() == list(range(6))
    assert torch.argsort(unknown).tolist() == [[0, 1, 2, 3]] * 6
    assert unknown[0].topk(1).indices.tolist() == [0]


# -- computing


@pytest.mark.parametrize(
    "compute",
    [
        lambda x: x + 1,
        lambda x: x.sum(),
        lambda x: x @ x.T,
        lambda x: torch.nn.functional.softmax(x, -1),
        lambda x: x.half(),
        lambda x: x.to("cuda:1"),
        lambda x: torch.stack([x, torch.ones_like(x)]),
        lambda x: x.exp_(),
        lambda x: torch.topk(x, 2).values,
        lambda x: torch.where(x > 0, x, 1.0),
    ],
)
def test_unknown_floats_are_never_computed(machine, compute):
    result = compute(unknown_float(3, 4))
    assert not known(result)


@pytest.mark.parametrize(
    "compute",
    [
        torch.zeros_like,
        torch.ones_like,
        lambda x: torch.full_like(x, 7),
        lambda x: x.new_zeros(3),
        lambda x: x.new_full((2,), 7),
    ],
)
def test_what_needs_only_the_shape_is_known(machine, compute):
    result = compute(unknown_float(3, 4))
    assert known(result)
    assert result.flatten()[0].item() in (0, 1, 7)


def test_integers_from_unknown_floats_are_valid_indices(machine):
    chosen = unknown_float(2, 5).argmax(-1)
    table = torch.arange(10.0, device="cuda").view(5, 2)
    assert chosen.tolist() == [0, 0]
    assert table[chosen].tolist() == [[0.0, 1.0]] * 2
    assert torch.nn.functional.embedding(chosen, table).shape == (2, 2)


# -- coming to life again


@pytest.mark.parametrize(
    "write",
    [
        lambda x: x.zero_(),
        lambda x: x.fill_(3),
        lambda x: x.copy_(torch.arange(6.0, device="cuda")),
        lambda x: x.uniform_(),
    ],
)
def test_overwriting_the_whole_revives(machine, write):
    tensor = unknown_float(6) * 2
    assert not known(tensor)
    write(tensor)
    assert known(tensor)


def test_out_over_an_unknown_tensor_revives(machine):
    tensor = unknown_float(3) * 2
    torch.add(torch.ones(3, device="cuda"), 1, out=tensor)
    assert tensor.tolist() == [2, 2, 2]


def test_overwriting_a_part_does_not_revive(machine):
    tensor = unknown_float(6) * 2
    tensor[:3].zero_()
    assert not known(tensor)
    assert tensor.tolist() == [ASSUMED_FLOAT] * 6


@pytest.mark.parametrize("reserve", [torch.empty, torch.zeros], ids=["empty", "zeros"])
def test_parts_of_a_large_buffer_hold_what_they_were_given(machine, reserve):
    """As DeepSpeed's buckets of gradients do, 5e8 elements by default."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    buffer = reserve(500_000_000, device="cuda")
    first, second = buffer.narrow(0, 10, 4), buffer.narrow(0, 400_000_000, 4)
    first.copy_(torch.arange(4.0, device="cuda"))
    second.fill_(3)
    second.div_(2)
    assert (buffer[10:14] * 2).tolist() == [0, 2, 4, 6]
    assert second.tolist() == [1.5] * 4
    assert not assumed(first)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50_000  # of 2 GB
    buffer.mul_(2)
    assert first.tolist() == [ASSUMED_FLOAT] * 4
    first.fill_(1)
    assert not known(first)


def test_out_into_a_part_of_a_large_buffer_is_computed(machine):
    """As chunked losses do: a tile of logits in a buffer for the widest."""
    buffer = torch.empty(6, LARGE, device="cuda")
    tile = buffer[:2, :3]
    assert torch.mm(torch.ones(2, 4, device="cuda"), torch.ones(4, 3, device="cuda"), out=tile) is tile
    assert tile.tolist() == [[4] * 3] * 2
    torch.mm(torch.ones(2, 4, device="cuda"), unknown_float(4, 3), out=tile)
    assert not known(buffer)


def test_something_unknown_in_a_large_buffer_forgets(machine):
    buffer = torch.empty(LARGE, device="cuda")
    buffer[:4].fill_(1)
    buffer[4:8].copy_(unknown_float(4))
    assert not known(buffer)
    buffer[:4].fill_(1)
    assert buffer[:4].tolist() == [ASSUMED_FLOAT] * 4


def test_writing_something_unknown_forgets(machine):
    tensor = torch.ones(4, device="cuda")
    view = tensor[:2]
    view.copy_(unknown_float(2))
    assert not known(tensor)
    tensor = torch.ones(4, device="cuda")
    tensor += unknown_float(4)
    assert not known(tensor)


def test_out_into_one_row_keeps_the_others(machine):
    table = torch.zeros(3, 2, device="cuda")
    ones = torch.ones(2, device="cuda")
    for row in range(3):
        torch.mul(ones, row, out=table[row])
    assert table.tolist() == [[0, 0], [1, 1], [2, 2]]


# -- shapes that depend on values


def test_unknown_masks_choose_nothing(machine):
    values = unknown_float(4)
    mask = values > 0
    assert values[mask].shape == (0,)
    assert torch.masked_select(values, mask).shape == (0,)
    assert mask.nonzero().shape == (0, 1)
    values[mask] = 1.0
    assert torch.arange(4.0, device="cuda")[mask].shape == (0,)


def test_unique_of_unknown(machine):
    assert torch.unique(unknown_int(5)).tolist() == [0]
    values, counts = torch.unique(unknown_float(5), return_counts=True)
    assert values.shape == (1,)
    assert counts.tolist() == [5]


def test_known_masks_choose_from_large_tensors(machine):
    large = torch.ones(LARGE, 2, device="cuda")
    mask = torch.zeros(LARGE, dtype=torch.bool, device="cuda")
    assert large[mask].shape[1] == 2
    small = torch.tensor([True, False, True], device="cuda")
    assert large[:3][small].shape == (2, 2)
    assert large[torch.tensor([0, 5, 7], device="cuda")].shape == (3, 2)


def test_large_masks_without_values(machine):
    large = torch.ones(2 * LARGE, device="cuda")
    chosen = large[large > 0.5]
    assert chosen.dim() == 1
    assert large.nonzero().dim() == 2


# -- control flow


def test_a_loop_of_generation_ends(machine):
    """The loop of `generate`: the next token comes from unknown logits, and `unfinished` decides when to
    stop.
    """
    table = torch.ones(50_000, 64, device="cuda")
    ids = torch.tensor([[1, 2, 3]], device="cuda")
    unfinished = torch.ones(1, dtype=torch.long, device="cuda")
    steps = 0
    while steps < 20:
        logits = torch.nn.functional.embedding(ids, table)[:, -1] @ table.T
        token = logits.argmax(-1) * unfinished
        ids = torch.cat([ids, token[:, None]], dim=1)
        unfinished = unfinished * (token != 2).long()
        steps += 1
        if unfinished.max() == 0:
            break
    assert steps == 20
    assert ids[0].tolist() == [1, 2, 3] + [0] * 20


def test_sampling_from_unknown_probabilities_ends(machine):
    logits = torch.ones(1, LARGE, device="cuda")[:, :100] * 2
    probabilities = torch.softmax(logits, -1)
    token = torch.multinomial(probabilities, 1)
    assert token.shape == (1, 1)
    assert 0 <= token.item() < 100


def test_training_on_large_parameters_goes_on(machine):
    layer = torch.nn.Linear(2048, 2048, device="cuda")
    optimizer = torch.optim.AdamW(layer.parameters())
    for _ in range(2):
        loss = layer(torch.ones(4, 2048, device="cuda")).pow(2).mean()
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(layer.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
    assert loss.item() == ASSUMED_FLOAT
    assert norm.item() == ASSUMED_FLOAT
    assert not known(layer.weight)


def test_reads_of_assumed_values_are_known(machine):
    """Where a program looks at what nobody computed, each line once; what is known is none of it."""
    large, small = torch.ones(LARGE, device="cuda"), torch.ones(3, device="cuda")
    assert [small.sum().item(), small.tolist(), bool(small.all()), float(small.cpu().numpy()[0])] == [
        3.0,
        [1.0] * 3,
        True,
        1.0,
    ]
    repr(large.sum())
    assert machine.assumed_reads == []
    for _ in range(2):
        large.sum().item()
    bool((large > 0).all().cpu())
    large[:3].tolist()
    large[:3].cpu().numpy()
    assert [place.line - machine.assumed_reads[0].line for place in machine.assumed_reads] == [0, 1, 2, 3]
    machine.start_over()
    assert machine.assumed_reads == []


LIBRARY = """
import torch

def step(model, batch):
    loss = model(batch).pow(2).mean()
    if torch.isnan(loss) or (batch > 0).all():
        return None
    return loss

def log(loss):
    return {"loss": loss.mean().item()}
"""
ASKS = """
import torch
import samedevice_trainer as trainer

model = torch.nn.Linear(2048, 2048, device="cuda")
batch = torch.ones(4, 2048, device="cuda") * torch.randn(1 << 20, device="cuda")[0]
loss = trainer.step(model, batch)
loss.backward()
torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
scaler = torch.amp.GradScaler("cuda")
optimizer = torch.optim.AdamW(model.parameters())
scaler.scale(model(batch).sum()).backward()
scaler.step(optimizer)
scaler.update()
repr(loss)
# silent until here
trainer.log(loss)
f"{loss:.3f}"
if torch.isnan(loss):
    pass
print(loss.cpu())
float(loss.detach().cpu() * 2)
"""


def test_what_a_script_asked_for_is_told_apart_from_checks_of_libraries(tmp_path, monkeypatch):
    """torch's and a library's own flags decide nothing that a person sees; a number that a library shows
    does.
    """
    folder = tmp_path / "site-packages"
    folder.mkdir()
    (folder / "samedevice_trainer.py").write_text(LIBRARY, encoding="utf-8")
    script = tmp_path / "script.py"
    script.write_text(ASKS, encoding="utf-8")
    monkeypatch.syspath_prepend(str(folder))
    with VirtualMachine(parse_machine("2x24GB"), script=str(script)) as machine:
        exec(compile(ASKS, str(script), "exec"), {"__name__": "__main__"})
    assert [place.code for place in machine.asked_values] == [
        'return {"loss": loss.mean().item()}',
        'f"{loss:.3f}"',
        "if torch.isnan(loss):",
        "print(loss.cpu())",
        "float(loss.detach().cpu() * 2)",
    ]


def test_assumed_ranks_are_no_values_that_were_asked_for():
    with VirtualMachine(parse_machine("2x24GB"), assumed_ranks=2) as machine:
        torch.ones(LARGE, device="cuda").sum().item()
    assert machine.assumed_reads
    assert machine.asked_values == []


def test_unknown_values_are_not_close_however_one_asks(machine):
    one, other = unknown_float(3), unknown_float(3)
    assert not torch.allclose(one, other)
    assert not torch.isclose(one, other).all()
    assert torch.allclose(one, one)
    known = torch.ones(3, device="cuda")
    assert torch.allclose(known, known + 0)
    assert torch.isclose(known, known + torch.tensor([0.0, 1.0, 0.0], device="cuda")).tolist() == [
        True,
        False,
        True,
    ]


def test_a_comparison_of_unknown_values_is_a_read_of_them(machine):
    one, known = unknown_float(3), torch.ones(3, device="cuda")
    assert torch.allclose(known, known)
    assert machine.assumed_reads == []
    torch.allclose(one, known)
    torch.equal(one, known)
    assert len(machine.assumed_reads) == 2


@pytest.mark.parametrize(
    "make",
    [
        lambda: torch.arange(10**9, device="cuda"),
        lambda: torch.arange(0, 1, 1e-9, device="cuda"),
        lambda: torch.linspace(0, 1, 10**9, device="cuda"),
        lambda: torch.eye(40000, device="cuda"),
        lambda: torch.randperm(10**9, device="cuda"),
    ],
)
def test_large_ranges_take_no_memory(machine, make):
    torch.eye(2, device="cuda")
    before = resident()
    made = make()
    assert made.numel() >= 10**9
    assert not known(made)
    assert resident() - before < 64 << 20
    assert torch.arange(5, device="cuda").tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("device", ["cuda:0", "cpu"])
def test_a_foreach_that_writes_is_seen_by_autograd(device):
    """Autograd leaves the counting of these writes to the kernels, which stand below the machine."""
    with VirtualMachine(parse_machine("1x24GB")):
        saved, weight = torch.ones(3, device=device), torch.ones(3, device=device, requires_grad=True)
        product = weight * saved
        torch._foreach_add_([saved], 1.0)
        assert saved._version == 1
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            product.sum().backward()
        with torch.inference_mode():
            torch._foreach_add_([torch.ones(2, device=device)], 1.0)


def test_what_the_cpu_lacks_is_computed_for_lists_as_well(machine):
    flags = [torch.tensor([True, False], device="cuda") for _ in range(2)]
    assert [known(each) and each.tolist() for each in torch._foreach_abs(flags)] == [[True, False]] * 2


def _packed(name, scalars, device="cuda"):
    tensors = [torch.tensor([3.0, 4.0], device=device), torch.tensor([5.0, 6.0], device=device)]
    result = getattr(torch, name)(tensors, tensors, tensors, scalars)
    return [tensor.tolist() for tensor in result]


@pytest.mark.parametrize(
    "name", ["_foreach_addcmul", "_foreach_addcmul_", "_foreach_addcdiv", "_foreach_addcdiv_"]
)
def test_scalars_in_a_tensor_of_the_host_are_numbers_for_a_foreach(machine, name):
    packed = torch.tensor([2.0, 3.0])
    assert _packed(name, packed) == _packed(name, packed, device="cpu") == _packed(name, [2.0, 3.0])


@pytest.mark.parametrize(
    ("scalars", "says"),
    [
        (torch.tensor([2.0]), "Expected length of scalars to match input of length 2 but got 1 instead."),
        (torch.tensor(2.0), "Expected packed scalar Tensor to be of dimension 1. Got 0 instead."),
        (torch.ones(2, 2)[:, 1], "Expected scalars to be contiguous."),
    ],
)
def test_scalars_in_a_tensor_are_checked_as_on_the_host(machine, scalars, says):
    for device in ("cpu", "cuda"):
        with pytest.raises(RuntimeError, match=re.escape(says)):
            _packed("_foreach_addcmul", scalars, device)


def test_scalars_in_a_tensor_of_a_gpu_are_refused():
    with VirtualMachine(parse_machine("2x24GB"), on_mismatch="raise") as entered:
        with pytest.raises(RuntimeError, match="Expected scalars to be on CPU, got cuda:0 instead"):
            _packed("_foreach_addcmul", torch.ones(2, device="cuda"))
        assert len(entered.events) == 1


@pytest.mark.filterwarnings("ignore:ComplexHalf support")
def test_half_precision_beside_complex_numbers(machine):
    """CUDA's kernels take what the CPU's refuse; results have CUDA's types."""
    x = torch.tensor([1.0, 2.0, 0.5, 1.5])
    half, bfloat = x.half().to("cuda:0"), x.bfloat16()
    beside = torch.result_type(bfloat, 0.5j)  # complex64 up to torch 2.13
    found = {
        "pow": (torch.pow(0.5j, half), torch.pow(0.5j, x), torch.complex32),
        "fft": (torch.fft.fft(half), torch.fft.fft(x), torch.complex32),
        "irfft": (torch.fft.irfft(torch.fft.rfft(half)), x, torch.float16),
        "bfloat16": (torch.pow(0.5j, bfloat.to("cuda:0")), torch.pow(0.5j, x), beside),
    }
    for name, (here, there, dtype) in found.items():
        assert here.dtype == dtype, name
        wide = here.cpu().to(torch.complex64 if dtype.is_complex else torch.float32)
        torch.testing.assert_close(wide, there, rtol=2e-3, atol=2e-3)
    with pytest.raises(RuntimeError, match="BFloat16"):  # in words of MKL from torch 2.14 on
        torch.fft.fft(half.bfloat16())


@pytest.mark.filterwarnings("ignore:ComplexHalf support")
@pytest.mark.parametrize("size", [0, 4])
def test_half_precision_is_written_into_as_on_cuda(machine, size):
    """The CPU computes in a wider type; the numbers come back into the memory of the program."""
    x = torch.tensor([1.0, 2.0, 0.5, 1.5])
    out = torch.empty(size, dtype=torch.complex32, device="cuda:0")
    assert torch.pow(0.5j, x.half().to("cuda:0"), out=out) is out
    whole = torch.zeros(2, 4, dtype=torch.complex32, device="cuda:0")
    whole[0] = out
    whole[0].sin_()
    for here, there in ((out, torch.pow(0.5j, x)), (whole[0], torch.pow(0.5j, x).sin())):
        torch.testing.assert_close(here.cpu().to(torch.complex64), there, rtol=2e-3, atol=2e-3)
    assert whole[1].to(torch.complex64).tolist() == [0] * 4


@pytest.mark.parametrize("device", ["cpu", "cuda:0"])
def test_conjugates_inside_an_operator_are_computed(machine, device):
    """`linalg.pinv` multiplies lazy conjugates in its own C++ body."""
    a = torch.tensor([[1 + 2j, 0.5j], [3 - 1j, 2 + 0j]], dtype=torch.complex128)
    found = torch.linalg.pinv(a.to(device))
    torch.testing.assert_close((a.to(device) @ found).cpu(), torch.eye(2, dtype=torch.complex128))


def test_nansum_takes_complex_numbers_on_a_gpu_alone(machine):
    x = torch.tensor([[1 + 1j, complex(float("nan"), 0)], [2j, 3]])
    assert torch.nansum(x.to("cuda:0")).item() == 4 + 3j
    assert torch.nansum(x.to("cuda:0"), dim=1, keepdim=True).tolist() == [[1 + 1j], [3 + 2j]]
    assert torch.nanmean(x.to("cuda:0"), dim=0).tolist() == [(1 + 3j) / 2, 3]
    with pytest.raises(RuntimeError, match="does not support complex"):
        torch.nansum(x)


def test_a_factor_with_a_zero_has_an_inverse_of_infinities_on_a_gpu(machine):
    factor = torch.tensor([[2.0, 0, 0], [1, 0, 0], [1, 1, 1]])
    assert not torch.cholesky_inverse(factor.to("cuda:0")).isfinite().all()
    with pytest.raises(torch.linalg.LinAlgError, match="diagonal element 2 is zero"):
        torch.cholesky_inverse(factor)
    factor[1, 1] = 3
    torch.testing.assert_close(
        torch.cholesky_inverse(factor.to("cuda:0")).cpu(), torch.cholesky_inverse(factor)
    )


def test_what_an_inverse_refuses_on_both_is_said_in_its_own_words(machine):
    with pytest.raises(RuntimeError, match="must have at least 2 dimensions"):
        torch.cholesky_inverse(torch.ones(2, device="cuda:0"))
    with pytest.raises(RuntimeError, match="got result with dtype Int"):
        torch.cholesky_inverse(
            torch.eye(2, device="cuda:0"), out=torch.empty(2, 2, dtype=torch.int, device="cuda:0")
        )


def test_memory_like_a_tensor_without_bytes_has_no_values_where_it_is_large(machine):
    with torch.device("meta"):
        small, large = torch.empty(3), torch.empty(LARGE)
    assert known(torch.empty_like(small, device="cuda"))
    assert not known(torch.empty_like(large, device="cuda"))


# -- what torch computes on GPUs only


WIDE = {
    "mm": lambda a, b, beside, **wide: torch.mm(a, b, **wide),
    "addmm": lambda a, b, beside, **wide: torch.addmm(beside, a, b, beta=0.5, alpha=2, **wide),
    "bmm": lambda a, b, beside, **wide: torch.bmm(a[None], b[None], **wide),
    "baddbmm": lambda a, b, beside, **wide: torch.baddbmm(beside[None], a[None], b[None], **wide),
}


@pytest.mark.skipif("dtype" not in torch.ops.aten.mm.overloads(), reason="out_dtype came with torch 2.8")
@pytest.mark.parametrize("name", WIDE)
def test_products_of_half_precision_have_values_in_a_wider_type(machine, name):
    a, b, beside = torch.randn(3, 8), torch.randn(8, 5), torch.randn(3, 5)
    a, b = a.bfloat16(), b.bfloat16()
    expected = WIDE[name](a.float(), b.float(), beside)
    given = a.cuda(), b.cuda(), beside.cuda()
    made = WIDE[name](*given, out_dtype=torch.float32)
    assert made.dtype == torch.float32 and made.device == torch.device("cuda:0")
    torch.testing.assert_close(made.cpu(), expected)

    into = torch.empty(expected.shape, device="cuda")
    WIDE[name](*given, out_dtype=torch.float32, out=into)
    torch.testing.assert_close(into.cpu(), expected)


@pytest.mark.skipif("dtype" not in torch.ops.aten.mm.overloads(), reason="out_dtype came with torch 2.8")
def test_large_products_in_a_wider_type_have_a_shape(machine):
    large = torch.ones(LARGE, 2, device="cuda", dtype=torch.bfloat16)
    small = torch.ones(2, 3, device="cuda", dtype=torch.bfloat16)
    made = torch.mm(large, small, out_dtype=torch.float32)
    assert made.shape == (LARGE, 3) and made.dtype == torch.float32 and not known(made)
