"""Random numbers on virtual GPUs: generators, seeds, states."""

from __future__ import annotations

import copy
import pickle

import pytest
import torch
import torch.utils.checkpoint
from torch import nn

from samedevice.machines import parse_machine
from samedevice.runtime import VirtualMachine
from samedevice.runtime.state import generator_device
from samedevice.torch_versions.adapter import TORCH

pytestmark = [pytest.mark.virtual("3x24GB"), pytest.mark.usefixtures("machine")]

RealGenerator = torch.Generator
EARLY = torch.Generator()


def test_a_generator_is_a_generator():
    generator = torch.Generator(device="cuda:1")
    assert generator.device == torch.device("cuda", 1)
    assert isinstance(generator, torch.Generator)
    assert isinstance(generator, RealGenerator)
    assert issubclass(type(generator), torch.Generator)
    for host in (
        torch.default_generator,
        EARLY,
        torch.Generator(),
        torch.Generator("cpu"),
        torch.Generator(None),
    ):
        assert isinstance(host, torch.Generator)
        assert generator_device(host) == host.device == torch.device("cpu")
    assert torch.Generator(2).device.index == torch.Generator(torch.device("cuda", 2)).device.index == 2
    with torch.cuda.device(1):
        assert torch.Generator("cuda").device.index == 1
    with pytest.raises(TORCH.accelerator_error, match="invalid device ordinal"):
        torch.Generator("cuda:7")


def test_equal_seeds_give_equal_numbers():
    generator = torch.Generator(device="cuda:1")
    assert generator.manual_seed(4) is generator
    assert generator.initial_seed() == 4
    first = torch.randn(3, device="cuda:1", generator=generator)
    second = torch.randn(3, device="cuda:1", generator=generator)
    generator.manual_seed(4)
    assert torch.equal(torch.randn(3, device="cuda:1", generator=generator), first)
    assert not torch.equal(first, second)


def test_copies_keep_device_and_state():
    generator = torch.Generator(device="cuda:1").manual_seed(7)
    torch.randn(3, device="cuda:1", generator=generator)
    state = generator.get_state()
    for twin in (copy.deepcopy(generator), pickle.loads(pickle.dumps(generator)), generator.clone_state()):
        assert twin is not generator
        assert twin.device == torch.device("cuda", 1)
        assert torch.equal(twin.get_state(), state)
    torch.randn(3, device="cuda:1", generator=generator)
    assert not torch.equal(generator.get_state(), state)
    generator.set_state(state)
    assert torch.equal(generator.get_state(), state)


def test_a_state_from_a_real_gpu_sets_the_seed():
    state = torch.tensor([5, 0, 0, 0, 0, 0, 0, 0] + [0] * 8, dtype=torch.uint8)
    torch.cuda.set_rng_state(state, 1)
    assert torch.cuda.default_generators[1].initial_seed() == 5


def test_the_state_is_seed_and_offset():
    generator = torch.Generator(device="cuda").manual_seed(-2)
    assert generator.initial_seed() == 2**64 - 2
    generator.set_offset(40)
    assert generator.get_offset() == 40
    state = generator.get_state()
    assert (state.dtype, state.device.type, state.numel()) == (torch.uint8, "cpu", 16)
    assert state[:8].view(torch.int64).item() == -2
    assert state[8:].view(torch.int64).item() == 40
    state[8:] = torch.tensor([80]).view(torch.uint8)
    generator.set_state(state)
    assert generator.get_offset() == 80
    generator.set_state(state[:8])
    assert generator.get_offset() == 0
    with pytest.raises(RuntimeError, match="offset must be a multiple of 4"):
        generator.set_offset(3)
    with pytest.raises(RuntimeError, match="RNG state is wrong size"):
        generator.set_state(torch.get_rng_state())
    with pytest.raises(TypeError, match=r"RNG state must be a torch\.ByteTensor"):
        generator.set_state(state.cuda())
    with pytest.raises(TypeError, match=r"RNG state must be a torch\.ByteTensor"):
        generator.set_state(state.float())


def test_numbers_hang_on_seed_and_offset_alone():
    first, second = torch.Generator("cuda").manual_seed(7), torch.Generator("cuda:1").manual_seed(7)
    torch.rand(5, device="cuda", generator=first)
    torch.randn(3, 2, device="cuda", generator=first)
    second.set_offset(first.get_offset())
    assert torch.equal(
        torch.rand(4, device="cuda", generator=first).cpu(),
        torch.rand(4, device="cuda:1", generator=second).cpu(),
    )
    drawn = []
    for offset in range(0, 400, 4):
        first.set_offset(offset)
        drawn.append(torch.rand(1, device="cuda", generator=first).item())
    assert len(set(drawn)) == len(drawn)


def test_a_seed_begins_with_what_the_host_draws_from_it():
    torch.manual_seed(21)
    assert torch.equal(torch.randn(4, device="cuda").cpu(), torch.randn(4, device="cpu"))


@pytest.mark.parametrize(
    ("draw", "used"),
    [
        (lambda x: torch.rand(10, device="cuda"), 4),
        (
            lambda x: torch.randn(2**28, device="cuda"),
            4 * 249,
        ),  # 132 SMs with 8 blocks of 256 threads, 4 numbers each
        (lambda x: x.uniform_(), 4),
        (lambda x: x.bernoulli_(0.5), 4),
        (lambda x: x.bernoulli_(x), 12),
        (torch.poisson, 20),
        (lambda x: torch.randint(9, (3,), device="cuda"), 4),
        (lambda x: torch.randperm(9, device="cuda"), 4),
        (lambda x: torch.rand(0, device="cuda"), 0),
        (lambda x: nn.functional.dropout(x, 0.5), 4),
        (lambda x: nn.functional.dropout(x, 0.0), 0),
        (lambda x: nn.functional.dropout(x, 0.5, training=False), 0),
        (nn.functional.rrelu, 0),
        (lambda x: nn.functional.rrelu(x, training=True), 4),
        (lambda x: nn.functional.scaled_dot_product_attention(x, x, x), 0),
    ],
)
def test_each_operator_moves_the_offset_as_on_cuda(draw, used):
    with VirtualMachine(parse_machine("1xH100-80G"), on_mismatch="raise"):
        x = torch.full((2, 3, 4, 8), 0.5, device="cuda")
        generator = torch.cuda.default_generators[0]
        before = generator.get_offset()
        draw(x)
        assert generator.get_offset() - before == used


def test_generators_share_a_state():
    generator = torch.Generator("cuda").manual_seed(3)
    twin = generator.graphsafe_get_state()
    torch.rand(2, device="cuda", generator=twin)
    assert generator.get_offset() == twin.get_offset() == 4
    alone = generator.clone_state()
    torch.rand(2, device="cuda", generator=generator)
    assert (alone.get_offset(), twin.get_offset()) == (4, 8)
    alone.graphsafe_set_state(generator)
    assert alone.get_offset() == 8


def test_a_host_generator_does_not_fit_a_gpu():
    with pytest.raises(RuntimeError, match="Expected a 'cuda' device type for generator but found 'cpu'"):
        torch.randn(3, device="cuda", generator=torch.Generator())
    with pytest.raises(RuntimeError, match="Expected a 'cpu' device type for generator but found 'cuda'"):
        torch.randn(3, generator=torch.Generator("cuda"))


def test_default_generators_belong_to_their_devices():
    torch.cuda.init()
    generators = torch.cuda.default_generators
    assert [generator.device.index for generator in generators] == [0, 1, 2]
    assert len(generators) == 3
    assert isinstance(generators[-1], torch.Generator)
    with pytest.raises(IndexError):
        generators[3]
    x = torch.randn(2, device="cuda:1", generator=generators[1])
    assert x.device.index == 1


def test_torch_manual_seed_seeds_every_gpu():
    torch.manual_seed(11)
    assert torch.cuda.initial_seed() == 11
    first = [torch.randn(2, device=f"cuda:{index}") for index in range(3)]
    torch.manual_seed(11)
    assert all(torch.equal(torch.randn(2, device=f"cuda:{index}"), first[index]) for index in range(3))
    with torch.cuda.device(1):
        torch.cuda.manual_seed(12)
        assert torch.cuda.initial_seed() == 12
    assert torch.cuda.initial_seed() == 11
    torch.cuda.seed_all()
    assert (
        torch.cuda.default_generators[0].initial_seed()
        == torch.cuda.default_generators[2].initial_seed()
        != 11
    )
    torch.cuda.seed()
    assert torch.cuda.default_generators[0].initial_seed() != torch.cuda.default_generators[2].initial_seed()


def test_states_make_the_round_trip():
    states = torch.cuda.get_rng_state_all()
    assert [state.device.type for state in states] == ["cpu"] * 3
    first = torch.randn(2, device="cuda:2")
    torch.cuda.set_rng_state_all(states)
    assert torch.equal(torch.randn(2, device="cuda:2"), first)
    torch.cuda.set_rng_state(states[2], device="cuda:2")
    assert torch.equal(torch.randn(2, device="cuda:2"), first)
    assert torch.equal(torch.cuda.get_rng_state("cuda:0"), states[0])


def test_fork_rng_protects_the_gpus():
    torch.manual_seed(3)
    with torch.random.fork_rng(devices=[0, 1]):
        first = torch.randn(2, device="cuda:1")
        torch.manual_seed(99)
    assert torch.equal(torch.randn(2, device="cuda:1"), first)


def test_dropout_can_be_repeated():
    x = torch.ones(64, device="cuda:1")
    torch.manual_seed(5)
    first = nn.functional.dropout(x, 0.5)
    torch.manual_seed(5)
    assert torch.equal(nn.functional.dropout(x, 0.5), first)
    assert not torch.equal(nn.functional.dropout(x, 0.5), first)


@pytest.mark.parametrize("use_reentrant", [False, True])
def test_checkpointing_repeats_dropout(use_reentrant):
    module = nn.Sequential(nn.Linear(8, 64), nn.Dropout(0.5)).cuda(1)
    x = torch.randn(4, 8, device="cuda:1", requires_grad=True)
    out = torch.utils.checkpoint.checkpoint(module, x, use_reentrant=use_reentrant)
    out.sum().backward()
    kept = (out != 0).float().cpu()
    assert torch.equal(module[0].bias.grad.cpu(), 2 * kept.sum(0))
