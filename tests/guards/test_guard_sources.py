"""`sd.guard` on hardware: what the source tells of tensors that no record follows."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import samedevice as sd
from evidence.engine import on_hardware


@pytest.fixture(autouse=True)
def hardware():
    with on_hardware.as_on_hardware(), sd.machine("2x24GB"):
        yield


class Table(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(8, 8)
        self.table = torch.arange(8.0)

    def forward(self, x):
        return self.inner(x) + self.table


class Twice(Table):
    """Two statements give the attribute a value: nobody knows which one held."""

    def reset(self):
        self.table = torch.zeros(8)


def fails(function, *args):
    with pytest.raises(RuntimeError) as caught, sd.guard():
        function(*args)
    assert not hasattr(caught.value, "samedevice_event")
    return caught.value.finding


def x(device="cuda:0"):
    return torch.ones(2, 8, device=device)


def of(finding, name):
    return next(each for each in finding.operands if each.name == name)


def test_a_plain_attribute_is_followed_to_its_constructor():
    finding = fails(Table().to("cuda:0"), x())
    table = of(finding, "self.table")
    assert (table.made.code, table.kept_by) == ("self.table = torch.arange(8.0)", "Table")
    assert finding.cause == "tensor-created-on-wrong-device"
    assert finding.guilty == "self.table"


def test_the_result_of_an_expression_is_an_operand_and_its_ingredients_are_none():
    finding = fails(Table().to("cuda:0"), x())
    assert [(each.name, each.device) for each in finding.operands] == [
        ("self.table", "cpu"),
        ("self.inner(x)", "cuda:0"),
    ]


def test_an_attribute_with_two_values_has_no_birthplace():
    assert of(fails(Twice().to("cuda:0"), x()), "self.table").made is None


def test_a_parameter_is_followed_to_what_the_caller_passed():
    def scaled(value, weights):
        return value * weights

    def caller():
        weights = torch.linspace(0, 1, 8)
        return scaled(x(), weights)

    weights = of(fails(caller), "weights")
    assert weights.made.code == "weights = torch.linspace(0, 1, 8)"
    assert weights.moved is None


def test_a_parameter_that_got_another_value_is_not_followed():
    def scaled(value, weights):
        weights = weights.clone()
        return value * weights

    assert of(fails(lambda: scaled(x(), torch.ones(8))), "weights").made is None


def test_a_move_is_told_with_the_birth():
    def caller():
        weights = torch.linspace(0, 1, 8).to("cuda:1")
        return x() * weights

    weights = of(fails(caller), "weights")
    assert weights.made.code == weights.moved.code == 'weights = torch.linspace(0, 1, 8).to("cuda:1")'


def test_a_name_with_a_value_for_each_branch_is_not_followed():
    def caller(flag):
        if flag:
            weights = torch.ones(8)
        else:
            weights = torch.zeros(8)
        return x() * weights

    assert of(fails(caller, True), "weights").made is None
