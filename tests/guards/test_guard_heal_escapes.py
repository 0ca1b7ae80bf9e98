"""Ways in which a copy could be written to, kept or seen: each ends as on one device, or is refused."""

from __future__ import annotations

import gc
import weakref

import pytest
import torch
from torch import nn
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader

import samedevice as sd
from samedevice.guards._operators import operator_of

pytestmark = pytest.mark.usefixtures("machine")

GPU = "cuda:0"
FAR = pytest.mark.parametrize("far", ["cuda:1", "cpu"])


def values(count, place, shift=0):
    return (torch.arange(float(count)) * 0.37 - 0.9 + 0.13 * shift).to(place)


def both(program, far):
    """What a program gives on one device and, healed, with a part of it far away."""
    alone = program(GPU)
    with sd.heal() as healing:
        healed = program(far)
    assert healing.repairs
    assert all(torch.equal(one.cpu(), other.cpu()) for one, other in zip(alone, healed, strict=True))


def default_argument(far):
    def scaled(x, factor=values(4, far, 2), kept=[]):  # noqa: B006, B008 # that is what is tried
        kept.append(factor)
        y = x * factor
        factor.mul_(2)
        return y + kept[0]

    x = values(4, GPU)
    return scaled(x), scaled(x), scaled.__defaults__[0]


def closure(far):
    cache = {}

    def read(x):
        y = x * cache.setdefault("k", values(4, far, 2))
        cache["k"] += x
        cache["k"][1:3].mul_(0.5)
        return y

    x = values(4, GPU)
    return read(x), read(x), read(x), cache["k"]


def generator(far):
    x, factor = values(4, GPU), values(4, far, 2)

    def steps():
        while True:
            factor.add_(1)
            yield x * factor

    made = steps()
    return next(made), next(made), factor


def hooks(far):
    torch.manual_seed(0)
    model, kept = nn.Sequential(nn.Linear(4, 4), nn.Tanh()).to(GPU), []
    model[0].register_forward_pre_hook(lambda module, given: kept.append(given[0]))
    model[0].register_forward_hook(lambda module, given, out: out.add_(given[0]))
    model.register_full_backward_hook(lambda module, inner, outer: kept.extend(inner))
    x = values(4, far)[None].requires_grad_()
    y = model(x)
    kept[0].data.mul_(2)
    y.sum().backward()
    return y, x.grad, *kept, *[parameter.grad for parameter in model.parameters()]


def resized(far):
    x, factor = values(4, GPU), values(4, far, 2)
    first = x * factor
    factor.resize_(2)
    second = x[:2] * factor
    factor.resize_(4).zero_()
    x.resize_as_(factor)
    return first, second, factor


def shared(far):
    x, factor = values(4, GPU), values(4, far, 2).share_memory_()
    first = x * factor
    factor.add_(1)
    return first, x * factor, factor


def loaded(far):
    data, x = values(8, far).view(4, 2), values(2, GPU)
    found = []
    for batch in DataLoader(data, batch_size=2):
        found.append(batch * x)
        batch.add_(1)
    return *found, data


def recomputed(far):
    x, factor = values(4, GPU).requires_grad_(), values(4, far, 2).requires_grad_()
    checkpoint(lambda p, q: (p * q).sin() * q, x, factor, use_reentrant=True).sum().backward()
    return x.grad, factor.grad


@FAR
@pytest.mark.parametrize(
    "program",
    [default_argument, closure, generator, hooks, resized, shared, loaded, recomputed],
    ids=lambda each: each.__name__,
)
def test_memory_that_is_reached_in_another_way(program, far):
    both(program, far)


def test_numpy_reads_and_writes_the_same_memory():
    def program(far):
        factor, x = values(4, far, 2), values(4, GPU)
        first = x * factor
        if far == "cpu":
            array = factor.numpy()
            array += 1
        else:
            factor += 1
        return first, x * factor, factor

    both(program, "cpu")


@FAR
def test_a_weak_reference_ends_with_its_tensor(far):
    factor = values(4, far)
    ends = weakref.ref(factor)
    with sd.heal():
        values(4, GPU) * factor
    del factor
    gc.collect()
    assert ends() is None


@FAR
def test_what_an_operator_reads_on_the_host_stays_there(far):
    """C++ reads the sizes of a packed sequence through their pointer, wherever that points to."""

    def program(far):
        torch.manual_seed(0)
        layer, x = nn.GRU(3, 4, batch_first=True).to(GPU), values(18, far).view(2, 3, 3).requires_grad_()
        packed = nn.utils.rnn.pack_padded_sequence(x, torch.tensor([3, 2]), batch_first=True)
        out, _ = nn.utils.rnn.pad_packed_sequence(layer(packed)[0], batch_first=True)
        loss = nn.functional.ctc_loss(
            out.log_softmax(2).transpose(0, 1),
            torch.tensor([[1, 2], [3, 1]], device=far),
            torch.tensor([3, 3]),
            torch.tensor([2, 1]),
        )
        loss.backward()
        return out, loss, x.grad

    both(program, far)


# -- what no schema says, and names that no schema has


@FAR
def test_statistics_of_which_no_schema_says_that_they_are_written(far):
    def program(far):
        mean, variance = torch.zeros(4, device=far), torch.ones(4, device=far)
        return *torch.batch_norm_update_stats(values(8, GPU).view(2, 4), mean, variance, 0.1), mean, variance

    both(program, far)


@pytest.mark.parametrize(
    ("name", "kwargs", "written"),
    [
        ("clamp_", {"input": 0, "max": 1}, [0]),
        ("add_", {"x1": 0, "x2": 1}, [0]),
        ("mul_", {"a": 0, "other": 1}, [0]),
        (
            "batch_norm_gather_stats",
            dict.fromkeys(["input", "mean", "invstd", "momentum", "eps", "count"]),
            [],
        ),
        ("add_", {"input": 0, "nothing_like_that": 1}, None),
    ],
)
def test_names_that_torch_takes_for_those_of_its_schemas(name, kwargs, written):
    function = getattr(torch.Tensor, name, None) or getattr(torch, name)
    tensors = [torch.ones(2), torch.ones(2)]
    given = {key: tensors[value] if value in (0, 1) else value for key, value in kwargs.items()}
    found = operator_of(function).written((), given)
    assert (found if found is None else [id(each) for each in found]) == (
        written if written is None else [id(tensors[each]) for each in written]
    )


@FAR
def test_a_write_by_keyword_is_made_once(far):
    def program(far):
        x, number = values(4, GPU).abs() + 0.5, torch.tensor(0.7, device=GPU if far == "cuda:1" else far)
        torch.xlogy_(input=x, other=number)
        torch.ldexp_(input=x, other=number)
        torch.clamp_(input=x, max=values(4, far))
        return (x,)

    both(program, far)


# -- autocast


@FAR
def test_a_parameter_that_autocast_casts_once(far):
    """Its gradients are added up in bfloat16, and on the host nothing would be cast."""
    weight, bias = torch.eye(4, device=GPU).requires_grad_(), values(4, far).requires_grad_()
    with (
        torch.autocast("cuda", torch.bfloat16),
        sd.heal(),
        pytest.raises(RuntimeError, match="device") as caught,
    ):
        nn.functional.linear(values(4, GPU)[None], weight, bias)
    assert any("casts a parameter once" in note for note in caught.value.__notes__)


@FAR
def test_an_input_under_autocast(far):
    def program(far):
        weight = nn.Parameter(torch.eye(4, device=GPU) * 0.7)
        with torch.autocast("cuda", torch.bfloat16):
            y = nn.functional.linear(values(4, far)[None] * 1, weight)
            z = nn.functional.linear(y.sin(), weight)
        z.float().sum().backward()
        return y, z, weight.grad

    both(program, far)


# -- who would see a copy


class Watches(TorchFunctionMode):
    def __torch_function__(self, function, types, args=(), kwargs=None):
        return function(*args, **kwargs or {})


class Looks(TorchDispatchMode):
    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        return function(*args, **kwargs or {})


@pytest.mark.parametrize("mode", [Watches, Looks])
def test_a_mode_further_out_sees_no_copy(mode):
    x, factor = values(4, GPU), values(4, "cuda:1")
    with mode(), sd.heal(), pytest.raises(RuntimeError) as caught:
        x * factor
    assert any("would see the copy" in note for note in caught.value.__notes__)
    with sd.heal(), Watches():  # it has seen the originals by then
        assert torch.equal(x * factor, (x * factor.to(GPU)).to((x * factor).device))


@FAR
def test_a_hook_of_a_node_changes_its_gradients(far):
    def program(far):
        x = values(4, far).requires_grad_()
        y = torch.addcmul(values(4, GPU), x, x)
        y.grad_fn.register_hook(lambda inner, outer: tuple(None if one is None else one * 2 for one in inner))
        (y.sum() + (x * 3).sum().to(y.device)).backward()
        return (x.grad,)

    both(program, far)
