"""What could change a model's numbers under `sd.heal`, each shown not to."""

from __future__ import annotations

import gc
import weakref
from contextlib import nullcontext, suppress

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

import samedevice as sd
from samedevice.errors import UnsupportedFeatureError
from samedevice.guards import _lent
from samedevice.guards._heal import QUIET_CALLS
from samedevice.guards._operators import operator_of
from samedevice.report import TextRenderer
from tests.guards.older_torch import REFUSES_HOOKS, inside_of_hooks

pytestmark = pytest.mark.usefixtures("machine")

GPU, OTHER = "cuda:0", "cuda:1"


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
    assert all(torch.equal(each.to(GPU), true) for each, true in zip(found, expected, strict=True))


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
    """It has added to gradients by the time it is refused; a statement of its own that torch refuses is
    healed by itself.
    """
    calls = []

    class Meets(torch.autograd.Function):
        @staticmethod
        def forward(context, x):
            return x * 2

        @staticmethod
        def backward(context, gradient):
            calls.append(gradient)
            if not heals:
                raise RuntimeError(
                    "Expected all tensors to be on the same device, but found at least two devices, cuda:0 "
                    "and cpu!"
                )
            return gradient * torch.arange(3.0)

    for heals in (True, False):
        weight = torch.ones(3, device=GPU, requires_grad=True)
        with (
            nullcontext() if heals else pytest.raises(RuntimeError, match="same device") as caught,
            sd.heal(),
        ):
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


# -- what autograd keeps


@pytest.mark.parametrize("learned", [False, True])
def test_a_write_between_forward_and_backward(learned):
    """The original is kept, so torch refuses a write that it counts, and a write through `.data` is seen."""
    weight, factor = torch.ones(3, device=GPU, requires_grad=True), torch.arange(3.0)
    with sd.heal():
        for _ in range(1 + learned):
            result = weight * factor
    factor.data.add_(5)
    result.sum().backward()
    assert weight.grad.tolist() == [5, 6, 7]
    with sd.heal():
        result = weight * factor
    factor.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        result.sum().backward()


def test_a_write_to_a_result_that_is_kept():
    weight, factor = torch.ones(3, device=GPU, requires_grad=True), torch.arange(3.0)
    with sd.heal():
        result = torch.softmax(weight * factor, 0)
        result = torch.pow(result, factor)
    result.detach().add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        result.sum().backward()


def test_views_are_kept_as_views_of_the_original():
    """A matrix product keeps the transposed of what it was given."""
    weight, x = torch.ones(2, 3, device=GPU, requires_grad=True), torch.arange(6.0).reshape(2, 3)
    with sd.heal():
        result = nn.functional.linear(x[:, ::1], weight)
    x.data.mul_(2)
    result.sum().backward()
    assert weight.grad.tolist() == [[6, 10, 14]] * 2


def test_a_graph_of_gradients_is_refused_where_it_would_keep_a_copy():
    weight, factor = torch.ones(3, device=GPU, requires_grad=True), torch.arange(3.0)
    with sd.heal():
        result = (weight * factor).sum()
        summed = (weight + factor).sum()
    with pytest.raises(RuntimeError, match="create_graph=True"):
        torch.autograd.grad(result, weight, create_graph=True)
    (gradient,) = torch.autograd.grad(summed, weight, create_graph=True)
    assert gradient.tolist() == [1, 1, 1]


def test_hooks_and_gradients_of_what_is_moved():
    factor, seen = torch.arange(3.0, requires_grad=True), []
    held = factor * 2
    held.retain_grad()
    held.register_hook(lambda gradient: seen.append(gradient) or gradient * 3)
    with sd.heal():
        (ones(3) * held).sum().backward()
    assert factor.grad.tolist() == [6, 6, 6]
    assert {str(each.device) for each in (factor.grad, held.grad, seen[0])} == {"cpu"}


@inside_of_hooks
def test_hooks_of_the_program_for_saved_tensors():
    packed = []
    weight, factor = torch.ones(3, device=GPU, requires_grad=True), torch.arange(3.0)
    with (
        torch.autograd.graph.saved_tensors_hooks(lambda each: packed.append(each) or each, lambda each: each),
        sd.heal(),
    ):
        result = torch.exp(weight) * factor
    result.sum().backward()
    assert torch.equal(weight.grad, torch.exp(torch.ones(3)).to(GPU) * factor.to(GPU))
    assert len(packed) == 2  # the result of exp, and the factor itself
    assert packed[1] is factor


@pytest.mark.skipif(not REFUSES_HOOKS, reason="this torch tells what hooks there are")
def test_healing_inside_of_hooks_is_refused_by_name_before_torch_2_8():
    weight, factor = torch.ones(3, device=GPU, requires_grad=True), torch.arange(3.0)
    with (
        torch.autograd.graph.saved_tensors_hooks(lambda each: each, lambda each: each),
        sd.heal(),
        pytest.raises(UnsupportedFeatureError, match=r"needs torch 2\.8 or newer"),
    ):
        _ = weight.exp() * factor


@inside_of_hooks
def test_a_checkpoint_sees_no_refused_call():
    """It numbers what autograd keeps: one more in the first run, and it would hand out others in the backward
    pass.
    """
    weight, factor = torch.ones(3, device=GPU, requires_grad=True), torch.arange(3.0)

    def run(factor):
        def body(x):
            y = x.exp() * factor
            return (y * x).sin() * factor

        weight.grad = None
        checkpoint(body, weight, use_reentrant=False).sum().backward()
        return weight.grad

    expected = run(factor.to(GPU))
    with sd.heal():
        assert all(torch.equal(run(factor), expected) for _ in range(3))


# -- one operator


@torch.no_grad()
@pytest.mark.parametrize("operand", ["expanded", "sliced", "transposed", "overlapping"])
def test_a_copy_has_the_strides_of_its_original(operand):
    memory = torch.arange(12.0)
    given = {
        "expanded": memory[:3].expand(4, 3),
        "sliced": memory.reshape(3, 4)[:, ::2],
        "transposed": memory.reshape(3, 4).t(),
        "overlapping": memory.as_strided((4, 3), (2, 1)),
    }[operand]
    copy = _lent.copied(given, torch.device(GPU))
    assert (copy.shape, copy.stride(), str(copy.device)) == (given.shape, given.stride(), GPU)
    assert torch.equal(copy.cpu(), given)


@torch.no_grad()
def test_random_numbers_are_drawn_once():
    mean, deviation = ones(4), ones(4, device=OTHER)
    torch.manual_seed(3)
    expected = [torch.normal(mean, deviation.to(GPU)) for _ in range(3)]
    torch.manual_seed(3)
    with sd.heal():
        found = [torch.normal(mean, deviation) for _ in range(3)]
    assert all(torch.equal(one.to(GPU), other) for one, other in zip(found, expected, strict=True))


@torch.no_grad()
@pytest.mark.parametrize("reach", ["itself", "view", "part", "write", "nothing"])
def test_a_copy_that_gets_out_of_its_operator_is_refused(reach):
    lending = _lent.Lending(lambda _: torch.device(GPU), TextRenderer("en"))
    given = torch.arange(4.0)
    lending.copy_all([given])
    copy = lending.place("", "", given)
    result = {"itself": copy, "view": copy[1:].view(3, 1), "part": [1, (copy[:2],)]}.get(reach, copy + 1)
    if reach == "write":
        copy.add_(1)
    with nullcontext() if reach == "nothing" else pytest.raises(_lent.Reached):
        lending.check(result)


@torch.no_grad()
def test_lists_go_to_what_is_written_number_by_number():
    totals, more = [ones(2), ones(2, device=OTHER)], [ones(2, device=OTHER), torch.ones(2)]
    held = list(totals)
    with sd.heal():
        for _ in range(3):
            torch._foreach_add_(totals, more)
    assert [each.tolist() for each in totals] == [[4, 4], [4, 4]]
    assert all(one is other for one, other in zip(totals, held, strict=True))


def test_operators_of_extensions_are_left_alone():
    """Their schemas need not say what they write."""
    library = torch.library.Library("samedevice_test", "FRAGMENT")
    library.define("bumped(Tensor x, Tensor y) -> Tensor")
    try:
        assert operator_of(torch.ops.samedevice_test.bumped) is None
        assert operator_of(torch.ops.samedevice_test.bumped.default) is None
    finally:
        library._destroy()
    assert operator_of(torch.ops.aten.add.Tensor) is not None


@torch.no_grad()
def test_a_property_that_keeps_what_it_is_given_is_left_alone():
    weight = torch.ones(3, device=GPU, requires_grad=True)
    with pytest.raises(RuntimeError), sd.heal():
        weight.grad = torch.ones(3)
    assert weight.grad is None


def test_the_mode_is_not_seen():
    """`MultiheadAttention` asks whether somebody listens, and then leaves its fast path, whose last bits
    differ.
    """
    torch.manual_seed(0)
    attention = nn.MultiheadAttention(64, 4, batch_first=True).eval()
    x = torch.randn(2, 50, 64)
    asks = torch.overrides.has_torch_function
    with torch.no_grad():
        expected = attention(x, x, x, need_weights=False)[0]
        with sd.heal():
            assert not torch.overrides.has_torch_function((x,))
            assert torch.equal(attention(x, x, x, need_weights=False)[0], expected)
    assert torch.overrides.has_torch_function is asks


@pytest.mark.parametrize(
    "name",
    [
        "batch_norm",
        "native_batch_norm",
        "instance_norm",
        "_foreach_add_",
        "add_",
        "_fused_sgd_",
        "embedding_renorm_",
    ],
)
def test_what_is_written_is_known_from_schemas(name):
    operator = operator_of(getattr(torch, name, None) or getattr(torch.Tensor, name))
    assert operator is not None
    assert not operator.leaves_nothing


@pytest.mark.parametrize(
    ("name", "draws"), [("dropout", True), ("bernoulli", True), ("mul", False), ("matmul", False)]
)
def test_what_draws_is_known_from_tags(name, draws):
    assert operator_of(getattr(torch, name)).draws == draws


class Twice(nn.Module):
    """Gives its weight to one operator twice, and returns it."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.arange(4.0) * 0.37 - 0.9)

    def forward(self, x):
        return self.weight, x.addcmul_(self.weight, self.weight)


def test_the_gradients_of_a_tensor_given_twice_add_up_in_their_order():
    def gradient(place):
        model = Twice().to(place)
        with sd.heal():
            weight, result = model(torch.arange(4.0).mul(0.1).to(GPU))
        loss = sum(each.square().sum().to(GPU) for each in (weight, result))
        loss.backward()
        return model.weight.grad.to(GPU)

    assert torch.equal(gradient(GPU), gradient(OTHER))
