"""Subclasses of tensors and modes of functions are asked first, as torch asks them."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.overrides import TorchFunctionMode

pytestmark = pytest.mark.usefixtures("machine")


class Telling(torch.Tensor):
    """Tells what it is asked for."""

    told: list[str] = []  # noqa: RUF012  # of the class, on purpose

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        cls.told.append(func.__name__)
        return super().__torch_function__(func, types, args, kwargs or {})


def test_a_lazy_module_moves_before_it_has_parameters():
    model = (
        nn.Sequential(nn.LazyConv2d(4, 3), nn.LazyBatchNorm2d(), nn.Flatten(), nn.LazyLinear(3))
        .to("cuda:1")
        .double()
    )
    assert model[0].weight.device == torch.device("cuda", 1)
    assert model[0].weight.is_cuda
    assert repr(model[0].weight) == "<UninitializedParameter>"
    with pytest.raises(ValueError, match="uninitialized parameter"):
        model[0].weight.sum()
    out = model(torch.randn(2, 3, 8, 8, device="cuda:1", dtype=torch.float64))
    out.sum().backward()
    assert type(model[0].weight) is nn.Parameter
    assert {one.grad.device.index for one in model.parameters()} == {1}
    assert model.cuda(0)(torch.ones(1, 3, 8, 8, device="cuda", dtype=torch.float64)).device.index == 0


def test_a_subclass_is_asked_for_methods_and_keeps_its_type():
    Telling.told.clear()
    there = torch.arange(3.0).as_subclass(Telling).to("cuda:1")
    back = there.cpu()
    assert Telling.told == ["to", "cpu"]
    assert type(there) is type(back) is Telling
    assert there.device == torch.device("cuda", 1)
    assert back.tolist() == [0.0, 1.0, 2.0]


def test_a_mode_of_functions_sees_methods():
    class Mode(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            seen.append(func.__name__)
            return func(*args, **(kwargs or {}))

    seen: list[str] = []
    values = torch.ones(2)
    with Mode():
        moved = values.to("cuda")
        moved[0]
    assert seen == ["to", "__getitem__"]


def test_zeros_that_autograd_makes_without_memory_have_values():
    x = torch.tensor([1.0, -2.0], dtype=torch.float64, device="cuda", requires_grad=True)
    scale = torch.ones_like(x, requires_grad=True)
    (gradient,) = torch.autograd.grad(nn.functional.softsign(x), x, scale, create_graph=True)
    second, of_scale = torch.autograd.grad(gradient.sum(), (x, scale))
    torch.testing.assert_close(second.cpu(), torch.tensor([-2 / 8, 2 / 27], dtype=torch.float64))
    torch.testing.assert_close(of_scale.cpu(), torch.tensor([1 / 4, 1 / 9], dtype=torch.float64))
