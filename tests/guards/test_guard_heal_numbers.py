"""What could change a model's numbers under `sd.heal`, each shown not to."""

from __future__ import annotations

import gc
import weakref
from contextlib import nullcontext, suppress

import pytest
import torch
from torch import nn

import samedevice as sd
from samedevice.guards._heal import QUIET_CALLS

GPU, OTHER = "cuda:0", "cuda:1"


@pytest.fixture(autouse=True)
def machine():
    with sd.machine("2x24GB") as entered:
        yield entered


def made(kind, *args):
    torch.manual_seed(0)
    return kind(*args).to(GPU).eval()


def ones(*shape, device=GPU):
    return torch.ones(*shape, device=device)


class Writes(nn.Module):
    """Reads an argument, and writes to it later."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x, total):
        y = self.layer(x) + total
        total.mul_(2)
        return y


@torch.no_grad()
def test_an_argument_that_is_written_to_later():
    model, x, total = made(Writes), ones(2, 4), ones(2, 4, device=OTHER)
    alone = torch.ones(2, 4, device=GPU)
    expected = [model(x, alone) for _ in range(4)]
    healing = sd.heal(model)
    found = [model(x, total) for _ in range(4)]
    assert all(map(torch.equal, found, expected))
    assert str(total.device) == OTHER
    assert torch.equal(total.to(GPU), alone)
    assert healing.repairs


class Remembers(Writes):
    """Keeps a list of the caller up to date."""

    def forward(self, x, past):
        y = self.layer(x) + past["states"][0]
        past["states"][0] = y
        return y


@torch.no_grad()
def test_a_list_of_the_callers():
    model, x = made(Remembers), ones(2, 4)
    alone, past = {"states": [ones(2, 4)]}, {"states": [ones(2, 4, device=OTHER)]}
    expected = [model(x, alone) for _ in range(4)]
    held = past["states"]
    sd.heal(model)
    found = []
    for _ in range(4):
        found.append(model(x, past))
        held[0] = held[0].to(OTHER)
    assert all(map(torch.equal, found, expected))
    assert past["states"] is held


class Reads(Remembers):
    """Takes a list and leaves it."""

    def forward(self, x, past):
        return self.layer(x) + past["states"][0]


@torch.no_grad()
def test_a_list_is_as_before():
    model, x, state = made(Reads), ones(2, 4), ones(2, 4, device=OTHER)
    past = {"states": [state]}
    healing = sd.heal(model)
    for _ in range(4):
        model(x, past)
    assert len(healing.repairs) == 1
    assert past["states"][0] is state


@torch.no_grad()
def test_an_argument_and_its_own_view():
    class Both(Writes):
        def forward(self, x, whole, first):
            y = self.layer(x) + whole
            first.add_(1)
            return y + whole

    model, x = made(Both), ones(2, 4)
    alone, whole = ones(2, 4), ones(2, 4, device=OTHER)
    expected = [model(x, alone, alone[0]) for _ in range(4)]
    sd.heal(model)
    found = [model(x, whole, whole[0]) for _ in range(4)]
    assert all(map(torch.equal, found, expected))


@torch.no_grad()
def test_a_returned_tensor_that_its_module_holds():
    class Holds(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("state", torch.ones(2, 4))

        def forward(self):
            return self.state

    class Outer(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer, self.holds = nn.Linear(4, 4), Holds()

        def forward(self, x):
            state = self.holds()
            y = self.layer(x) + state
            state.add_(1)
            return y

    alone, model, x = made(Outer), made(Outer), ones(2, 4)
    model.holds.to(OTHER)
    expected = [alone(x) for _ in range(5)]
    sd.heal(model)
    found = [model(x) for _ in range(5)]
    assert all(map(torch.equal, found, expected))


@torch.no_grad()
def test_a_number_on_the_host_stays():
    """CUDA reads it in float32; a tensor on the GPU would be rounded to the type of the others first."""
    x, y, number = ones(3).bfloat16(), ones(3, device=OTHER).bfloat16(), torch.tensor(1 / 3)
    moved = []
    to = torch.Tensor.to

    def watched(tensor, *args, **kwargs):
        moved.append(tensor)
        return to(tensor, *args, **kwargs)

    with sd.heal() as healing, pytest.MonkeyPatch.context() as patched:
        patched.setattr(torch.Tensor, "to", watched)
        result = torch.addcmul(x, y, number)
    assert str(result.device) == healing.repairs[0].target == GPU
    assert any(each is y for each in moved)
    assert not any(each is number for each in moved)


def test_running_statistics():
    """Batch norm updates them without saying so in its schema."""
    alone, model = made(nn.BatchNorm1d, 4).train(), made(nn.BatchNorm1d, 4).train()
    for name in ("running_mean", "running_var"):
        setattr(model, name, getattr(model, name).to(OTHER))
    mean = model.running_mean
    x = torch.arange(8.0, device=GPU).reshape(2, 4)
    healing = sd.heal(model)
    for _ in range(3):
        expected, found = alone(x), model(x)
        assert torch.equal(found.to(GPU), expected)
        assert torch.equal(mean.to(GPU), alone.running_mean)
    assert model.running_mean is mean
    assert healing.repairs


def test_a_backward_pass_is_not_made_twice():
    """It has added to gradients by the time it is refused; a statement of its own that torch refuses is healed by itself."""
    calls = []

    class Meets(torch.autograd.Function):
        @staticmethod
        def forward(context, x):
            return x * 2

        @staticmethod
        def backward(context, gradient):
            calls.append(gradient)
            if not heals:
                raise RuntimeError("Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu!")
            return gradient * torch.arange(3.0)

    for heals in (True, False):
        weight = torch.ones(3, device=GPU, requires_grad=True)
        with nullcontext() if heals else pytest.raises(RuntimeError, match="same device") as caught, sd.heal():
            Meets.apply(weight).sum().backward()
        if heals:
            assert torch.equal(weight.grad, torch.arange(3.0, device=GPU))
    assert len(calls) == 2
    assert any("done a part of its work" in note for note in caught.value.__notes__)


@torch.no_grad()
def test_dropout_inside_attention():
    """Each operator by itself: the function draws its random numbers once."""
    attention = nn.MultiheadAttention(4, 2, dropout=0.5).to(GPU).train()
    alone = nn.MultiheadAttention(4, 2, dropout=0.5).to(GPU).train()
    alone.load_state_dict(attention.state_dict())
    attention.out_proj.to(OTHER)
    x = ones(3, 1, 4)
    for _ in range(3):
        torch.manual_seed(5)
        expected = alone(x, x, x)[0]
        torch.manual_seed(5)
        with sd.heal():
            assert torch.equal(attention(x, x, x)[0].to(GPU), expected)


class Branches(nn.Module):
    """Meets a helper on the host only later, and counts its calls."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)
        self.late, self.steps = False, 0

    def forward(self, x):
        self.steps += 1
        y = self.layer(x)
        return y * torch.arange(4.0) if self.late else y


@torch.no_grad()
def test_no_call_of_a_model_is_made_twice():
    model, x = made(Branches), ones(2, 4)
    sd.heal(model)
    for _ in range(QUIET_CALLS):
        model(x)
    model.late = True
    with pytest.raises(RuntimeError) as caught:
        model(x)
    assert any("no call is made twice" in note for note in caught.value.__notes__)
    assert model.steps == QUIET_CALLS + 1
    assert torch.equal(model(x), model.layer(x) * torch.arange(4.0, device=GPU))
    assert model.steps == QUIET_CALLS + 2


@torch.no_grad()
def test_watching_keeps_no_tensor_alive():
    """A cache that grows by making new tensors must not be held twice."""

    class Grows(nn.Module):
        def forward(self, cache):
            old = weakref.ref(cache.keys)
            cache.keys = torch.cat([cache.keys, cache.keys])
            return old() is None

    class Cache:
        keys = None

    cache, model = Cache(), Grows()
    cache.keys = ones(2)
    sd.heal(model)
    assert model(cache)


@torch.no_grad()
@pytest.mark.parametrize("heals", [True, False])
def test_a_refused_call_keeps_no_tensor_alive(heals):
    """Neither healed nor not: a cycle would hold the operands until the garbage collector comes."""
    kept = []
    gc.disable()
    try:
        with sd.heal():
            x = ones(3)
            kept.append(weakref.ref(x))
            if heals:
                x * torch.arange(3.0)
            else:
                with suppress(RuntimeError):
                    torch.randn(3, device=GPU, generator=torch.Generator(), out=x)
        del x
        assert kept[0]() is None
    finally:
        gc.enable()


class Scales(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x):
        return self.layer(x)


@torch.no_grad()
def test_statements_outside_of_modules():
    model, x = made(Scales), ones(2, 4)
    labels = torch.tensor([1, 2])
    expected = nn.functional.cross_entropy(model(x), labels.to(GPU))
    with sd.heal() as healing:
        found = nn.functional.cross_entropy(model(x), labels)
    assert torch.equal(found, expected)
    (repair,) = healing.repairs
    assert (repair.source, repair.target) == ("cpu", GPU)
    with pytest.raises(RuntimeError, match="same device"):
        nn.functional.cross_entropy(model(x), labels)


@torch.no_grad()
def test_a_model_and_what_is_around_it():
    model, x = made(Scales), ones(2, 4, device=OTHER)
    with sd.heal(model) as healing:
        for _ in range(3):
            result = model(x) * torch.arange(4.0)
    assert str(result.device) == GPU
    assert len(healing.repairs) == 2
    assert "forward" not in vars(model)
