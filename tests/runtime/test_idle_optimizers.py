"""Optimizers whose steps do nothing are told, and none of a program that trains."""

from __future__ import annotations

import copy

import pytest
import torch

from samedevice.machines import parse_machine
from samedevice.runtime import VirtualMachine


def told(program):
    with VirtualMachine(parse_machine("2x24GB")) as machine:
        with machine.watched_optimizers() as idle:
            program()
            return [name for name, _ in idle()]


def trained(model, *optimizers, steps=2):
    for _ in range(steps):
        model(torch.ones(2, 4, device=next(model.parameters()).device)).sum().backward()
        for optimizer in optimizers:
            optimizer.step()


def of_the_model_itself():
    model = torch.nn.Linear(4, 4).to("cuda:0")
    trained(model, torch.optim.SGD(model.parameters(), 0.1))


def of_what_was_copied():
    model = torch.nn.Linear(4, 4)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    trained(copy.deepcopy(model).to("cuda:0"), optimizer)


def of_what_was_replaced():
    model = torch.nn.Sequential(torch.nn.Linear(4, 4))
    optimizer = torch.optim.Adam(model.parameters())
    model[0] = torch.nn.Linear(4, 4)
    trained(model.to("cuda:0"), optimizer)


def a_step_before_the_first_gradient():
    model = torch.nn.Linear(4, 4).to("cuda:0")
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    optimizer.step()  # so that a scheduler does not warn
    trained(model, optimizer)


def two_in_turns():
    one, other = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)
    first, second = torch.optim.SGD(one.parameters(), 0.1), torch.optim.Adam(other.parameters())
    trained(one, second, first)


def none_has_gradients():
    model = torch.nn.Linear(4, 4)
    torch.optim.SGD(model.parameters(), 0.1).step()


@pytest.mark.parametrize(
    ("program", "names"),
    [
        (of_the_model_itself, []),
        (of_what_was_copied, ["SGD"]),
        (of_what_was_replaced, ["Adam"]),
        (a_step_before_the_first_gradient, []),
        (two_in_turns, []),
        (none_has_gradients, []),
    ],
)
def test_an_optimizer_is_told_that_holds_what_nobody_trains(program, names):
    assert told(program) == names
