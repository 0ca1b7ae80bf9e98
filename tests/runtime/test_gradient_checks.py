"""Autograd compares devices as it does on hardware, and gradients find their way back after a refused
operator.
"""

from __future__ import annotations

import pytest
import torch

import samedevice as sd
from samedevice.errors import UnsupportedFeatureError
from samedevice.events import EventKind
from samedevice.machines import parse_machine
from samedevice.runtime import VirtualMachine
from samedevice.runtime.engine.crossing import Passing

pytestmark = pytest.mark.virtual(on_mismatch="record")

GPU, OTHER = "cuda:0", "cuda:1"
LARGE = 600 * 600
"""Elements of a tensor that is too large to have values."""


def moving(target, back=None):
    """A custom function that moves its argument and brings its gradient back, or forgets to."""

    class Moves(torch.autograd.Function):
        @staticmethod
        def forward(ctx, number, x):
            ctx.home = x.device
            return x.to(target) * number

        @staticmethod
        def backward(ctx, gradient):
            gradient = gradient * 2
            return None, gradient.to(ctx.home) if back else gradient

    return Moves


@pytest.mark.parametrize(("home", "target"), [(GPU, OTHER), (GPU, "cpu"), ("cpu", GPU)])
def test_a_gradient_of_a_custom_function_on_the_wrong_device(home, target):
    text = (
        f"Function MovesBackward returned an invalid gradient at index 0 - expected device {home} but got "
        f"{target}"
    )
    with VirtualMachine(parse_machine("2x24GB")) as machine:
        torch.ones(2, device=GPU) + torch.ones(2)  # another bug, before
        x = torch.ones(4, device=home, requires_grad=True)
        moving(target).apply(2, x).sum().backward()
        assert x.grad.device == torch.device(home)
        assert x.grad.tolist() == [2.0] * 4
        assert type(x.grad) is torch.Tensor
        assert [event.message for event in machine.events[1:]] == [text]
    with VirtualMachine(parse_machine("2x24GB"), on_mismatch="raise"), pytest.raises(RuntimeError) as caught:
        x = torch.ones(4, device=home, requires_grad=True)
        moving(target).apply(2, x).sum().backward()
    assert str(caught.value) == text


@pytest.mark.parametrize("size", [4, LARGE])
@pytest.mark.parametrize(("home", "target"), [(GPU, OTHER), (GPU, "cpu"), ("cpu", GPU)])
def test_a_gradient_that_is_brought_back_is_fine(machine, home, target, size):
    x = torch.ones(size, device=home, requires_grad=True)
    moving(target, back=True).apply(2, x).sum().backward()
    assert x.grad.device == torch.device(home)
    assert type(x.grad) is torch.Tensor
    assert machine.events == []


def test_a_gradient_without_dimensions_moves_by_itself(machine):
    x = torch.ones((), device=GPU, requires_grad=True)
    moving(OTHER).apply(2, x).backward()
    assert x.grad.device == torch.device(GPU)
    torch.autograd.backward(torch.ones((), device=GPU, requires_grad=True) * 2, torch.ones((), device=OTHER))
    assert machine.events == []


@pytest.mark.parametrize(("home", "wrong"), [(GPU, OTHER), (GPU, "cpu"), ("cpu", GPU)])
def test_a_gradient_to_start_from(machine, home, wrong):
    x = torch.ones(4, device=home, requires_grad=True)
    (x * 2).backward(torch.ones(4, device=wrong))
    (found,) = torch.autograd.grad(x * 2, x, grad_outputs=torch.ones(4, device=wrong))
    assert x.grad.device == found.device == torch.device(home)
    assert x.grad.tolist() == found.tolist() == [2.0] * 4
    text = f"invalid gradient at index 0 - expected device {home} but got {wrong}"
    assert [event.message for event in machine.events] == [text, text]


SAME = "Please ensure that the gradient and the tensor are on the same device"


@pytest.mark.parametrize(
    ("home", "wrong", "text"),
    [
        (
            GPU,
            OTHER,
            "attempting to assign a gradient located on device with index '1' to a tensor located on device "
            "with index '0'. ",
        ),
        (
            GPU,
            "cpu",
            "attempting to assign a gradient with device type 'cpu' to a tensor with device type 'cuda'. ",
        ),
        (
            "cpu",
            GPU,
            "attempting to assign a gradient with device type 'cuda' to a tensor with device type 'cpu'. ",
        ),
    ],
)
def test_an_assigned_gradient(machine, home, wrong, text):
    x = torch.ones(4, device=home, requires_grad=True)
    x.grad = torch.full((4,), 3.0, device=wrong)
    assert x.grad.device == torch.device(home)
    assert x.grad.tolist() == [3.0] * 4
    assert [event.message for event in machine.events] == [text + SAME]
    x.grad = torch.ones(4, device=home)
    x.grad = None
    with pytest.raises(RuntimeError, match="dtype"):
        x.grad = torch.ones(4, dtype=torch.float64, device=wrong)
    assert x.grad is None
    del x.grad
    assert len(machine.events) == 1


REFUSED = [
    lambda x, s: x * s,
    lambda x, s: x * (s * 1.0),
    lambda x, s: torch.cat([x, s]),
    lambda x, s: x @ s,
    lambda x, s: torch.stack([s.exp().log() * x]) + s.flip(0),
    lambda x, s: torch.nn.functional.linear(x[None], s[None]),
]


@pytest.mark.parametrize("place", ["cpu", OTHER])
@pytest.mark.parametrize("compute", REFUSED)
def test_backward_of_a_refused_operator(machine, compute, place):
    expected_x, expected_s = torch.arange(1.0, 5.0).requires_grad_(), torch.arange(2.0, 6.0).requires_grad_()
    compute(expected_x, expected_s).sum().backward()
    x = torch.arange(1.0, 5.0, device=GPU).requires_grad_()
    s = torch.arange(2.0, 6.0, device=place).requires_grad_()
    compute(x, s).sum().backward()
    compute(x, s).sum().backward()  # accumulates
    for own, expected in ((x, expected_x), (s, expected_s)):
        assert own.grad.device == own.device
        assert type(own.grad) is torch.Tensor
        assert own.grad.tolist() == pytest.approx((expected.grad * 2).tolist(), rel=1e-5)
    found = torch.autograd.grad(compute(x, s).sum(), [x, s])
    assert [each.device for each in found] == [x.device, s.device]
    assert not any(isinstance(each, Passing) for each in found)
    torch.optim.SGD([x, s], lr=0.1).step()
    assert machine.events


def test_backward_of_a_custom_function_that_was_refused(machine):
    class Scales(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, s):
            ctx.save_for_backward(x, s)
            return x * s

        @staticmethod
        def backward(ctx, gradient):
            x, s = ctx.saved_tensors
            return gradient * s, (gradient * x).sum(0)

    x, s = torch.ones(1, 4, device=GPU, requires_grad=True), torch.arange(4.0, requires_grad=True)
    Scales.apply(x, s).sum().backward()
    assert x.grad.tolist() == [[0.0, 1.0, 2.0, 3.0]]
    assert s.grad.tolist() == [1.0] * 4
    assert (x.grad.device.type, s.grad.device.type) == ("cuda", "cpu")
    assert [event.op for event in machine.events] == ["aten.mul.Tensor"]


@pytest.mark.parametrize("size", [4, LARGE])
@pytest.mark.parametrize("mode", ["floor", "trunc"])
def test_gradients_that_are_zero_are_on_their_device(machine, mode, size):
    x, y = (torch.full((size,), value, device=OTHER, requires_grad=True) for value in (7.0, 2.0))
    torch.div(x, y, rounding_mode=mode).sum().backward()
    for own in (x, y):
        assert own.grad.device == torch.device(OTHER)
        assert own.grad[:4].tolist() == [0.0] * 4 or size == LARGE
    assert machine.events == []


@pytest.mark.parametrize("size", [4, LARGE])
@pytest.mark.parametrize("used", [0, 1])
def test_a_result_without_a_gradient_gets_zeros_where_it_is(machine, used, size):
    class Both(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.to(GPU), x.to(OTHER)

        @staticmethod
        def backward(ctx, first, second):
            assert (first.device, second.device) == (torch.device(GPU), torch.device(OTHER))
            return first + second.to(GPU)

    x = torch.ones(size, device=GPU, requires_grad=True)
    Both.apply(x)[used].sum().backward()
    assert x.grad[:2].tolist() == [1.0, 1.0] or size == LARGE
    assert machine.events == []


def test_a_trainable_number_on_the_host_is_fine(machine):
    scale = torch.ones((), requires_grad=True)
    (torch.ones(4, device=GPU) * scale).sum().backward()
    assert scale.grad.item() == 4.0
    assert machine.events == []


def test_a_graph_of_gradients_over_host_and_gpu_is_refused_not_lost():
    class Product(torch.autograd.Function):
        @staticmethod
        def forward(context, p, q):
            context.save_for_backward(p, q)
            return p * q

        @staticmethod
        def backward(context, gradient):
            p, q = context.saved_tensors
            return gradient * q, gradient * p

    with VirtualMachine(parse_machine("1x24GB")), sd.heal():
        weight = torch.nn.Parameter(torch.ones(4, device="cuda"))
        product = Product.apply(weight, torch.ones(4, requires_grad=True))
        (plain,) = torch.autograd.grad((product * product).sum(), [weight], retain_graph=True)
        assert plain.tolist() == [2.0, 2.0, 2.0, 2.0]
        with pytest.raises(UnsupportedFeatureError, match="create_graph=True"):
            torch.autograd.grad((product * product).sum(), [weight], create_graph=True)


class Scaled(torch.nn.Module):
    """A module on the host that brings a part of its weight to the GPU itself."""

    def __init__(self, to_gpu):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.tensor([1.0, 2.0, 3.0, 4.0]))
        self.to_gpu = to_gpu

    def forward(self, x):
        return (x * self.to_gpu(self.weight[1:3]) ** 3).sum()


def _gradients(module, device):
    loss = module(torch.tensor([1.0, 5.0], device=device))
    (first,) = torch.autograd.grad(loss, module.weight, create_graph=True)
    (second,) = torch.autograd.grad(first.square().sum(), module.weight, create_graph=True)
    (third,) = torch.autograd.grad(second.sum(), module.weight)
    module(torch.tensor([1.0, 5.0], device=device)).backward()
    return [each.tolist() for each in (first, second, third, module.weight.grad)]


@pytest.mark.parametrize(
    "move", [lambda part, target: part.to(target), lambda part, target: moving(target, True).apply(0.5, part)]
)
def test_a_part_of_a_host_weight_that_its_module_moves_has_gradients_there(machine, move):
    module, host = Scaled(lambda part: move(part, GPU)), Scaled(lambda part: move(part, "cpu"))
    assert _gradients(module, GPU) == _gradients(host, "cpu")
    assert module.weight.grad.device.type == "cpu"
    assert machine.events == []


def _adds(w, x, y):
    y = y * 3
    y += x * 2
    y += x
    return y * w


def _puts(w, x, y):
    y = y * 3
    y[torch.tensor([0, 1], device=x.device)] = x[2:]
    y += x
    return y * w


def _puts_by_mask(w, x, y):
    y = torch.zeros(4)
    y[x > 2] = x[x > 2].square()
    return y * w


def _adds_to_a_part(w, x, y):
    y = y * 3
    y[1:] += x[1:]
    return y.pow(2) * w


@pytest.mark.parametrize("compute", [_adds, _puts, _puts_by_mask, _adds_to_a_part])
def test_backward_of_host_memory_that_took_values_of_a_gpu(machine, compute):
    def gradients(place):
        w, y = torch.ones(4, requires_grad=True), torch.arange(2.0, 6.0).requires_grad_()
        x = torch.arange(1.0, 5.0, device=place).requires_grad_()
        compute(w, x, y).sum().backward()
        return [
            None if each.grad is None else (str(each.grad.device), each.grad.tolist()) for each in (x, w, y)
        ]

    (_, expected), *others = gradients("cpu")
    assert gradients(GPU) == [(str(torch.device(GPU)), expected), *others]
    assert machine.events


def test_a_gradient_with_values_for_host_memory_without(machine):
    """As DeepSpeed gives an optimizer's state that came from a GPU to the host its gradient."""
    weight = torch.ones(LARGE, device=GPU).to("cpu").requires_grad_()
    gradient = torch.full((LARGE,), 3.0).pin_memory()
    weight.grad = gradient
    assert weight.grad is gradient and gradient.is_pinned() and weight.grad.device == torch.device("cpu")
    assert weight.grad[:2].tolist() == [3.0, 3.0]
    gradient.mul_(2)
    assert weight.grad[:2].tolist() == [6.0, 6.0]
    torch.optim.SGD([weight], lr=1.0).step()
    assert machine.events == []


def test_a_gradient_without_values_for_host_memory_with(machine):
    weight = torch.ones(LARGE, requires_grad=True)
    weight.grad = torch.ones(LARGE, device=GPU).to("cpu")
    assert weight.device == weight.grad.device == torch.device("cpu")
    assert weight[:2].tolist() == [1.0, 1.0]
    torch.optim.SGD([weight], lr=1.0).step()
    assert machine.events == []


def gradient_for(device, at, size):
    """The device of a gradient, with another one given for the result of a product or a sum."""
    x = torch.ones(3, device=device, requires_grad=True)
    result = x * 2 if size else x.sum()
    return torch.autograd.grad(result, x, torch.ones(size, device=at))[0].device


@pytest.mark.parametrize("size", [(3,), ()])
@pytest.mark.parametrize("at", [GPU, "meta", "cpu"])
@pytest.mark.parametrize("device", [GPU, "meta"])
def test_a_given_gradient_on_meta_or_for_a_result_on_meta(device, at, size):
    """Plain torch with the host in the place of the GPU says it."""
    try:
        theirs = str(gradient_for(device.replace(GPU, "cpu"), at.replace(GPU, "cpu"), size))
    except RuntimeError as error:
        theirs = f"{type(error).__name__}: {error}"
    with VirtualMachine(parse_machine("2x24GB"), on_mismatch="raise"):
        try:
            ours = str(gradient_for(device, at, size))
        except RuntimeError as error:
            ours = f"{type(error).__name__}: {error}"
    if (device, at, size) == (GPU, "cpu", (3,)):
        theirs = f"RuntimeError: invalid gradient at index 0 - expected device {GPU} but got cpu"
    elif at == "cpu":
        theirs = theirs.replace("cpu", GPU) if device == GPU else theirs
    else:
        theirs = theirs.replace("cpu", GPU)
    assert ours == theirs


def test_a_gradient_on_meta_leaves_the_rest_running(machine):
    x = torch.ones(3, device=GPU, requires_grad=True)
    (x * 2).backward(torch.empty(3, device="meta"))
    x.sum().backward(torch.empty((), device="meta"))
    assert x.grad.device == torch.device(GPU)
    assert [(event.kind, event.message) for event in machine.events] == [
        (EventKind.UNMATERIALIZED, f"invalid gradient at index 0 - expected device {GPU} but got meta"),
        (EventKind.UNMATERIALIZED, "Cannot copy out of meta tensor; no data!"),
    ]


def test_a_program_on_meta_alone_has_its_gradients(machine):
    layer = torch.nn.Linear(3, 2, device="meta")
    layer(torch.empty(4, 3, device="meta")).sum().backward()
    layer(torch.empty(4, 3, device="meta")).backward(torch.empty(4, 2, device="meta"))
    layer.weight.grad = torch.empty(2, 3, device="meta")
    assert layer.bias.grad.is_meta
    assert machine.events == []


@pytest.mark.parametrize(("home", "other"), [(GPU, "meta"), ("meta", GPU)])
def test_an_assigned_gradient_on_meta(machine, home, other):
    x = torch.ones(3, device=home, requires_grad=True)
    x.grad = torch.ones(3, device=other)
    assert x.grad.device == torch.device(home)
    (event,) = machine.events
    assert event.kind is EventKind.UNMATERIALIZED
    assert event.message.startswith(
        f"attempting to assign a gradient with device type '{torch.device(other).type}' to a tensor with "
        f"device type '{torch.device(home).type}'."
    )
