"""Optimizers whose steps do nothing, or not to what is used, are told, and none of a program that trains."""

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
            return [each.copy or each.optimizer for each in idle()]


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


def a_copy_that_is_made_once():
    start = torch.zeros(3, requires_grad=True)
    optimizer = torch.optim.Adam([start], lr=0.1)
    moved = start.to("cuda:1")
    for _ in range(3):
        optimizer.zero_grad()
        (moved - 1).pow(2).sum().backward()
        optimizer.step()


def a_copy_of_an_object():
    class Fit:
        def __init__(self):
            self.scale = torch.nn.Parameter(torch.ones(2))
            self.optimizer = torch.optim.SGD([self.scale], lr=0.1)
            self.on_gpu = self.scale.cuda()

        def step(self):
            (self.on_gpu * 2).sum().backward()
            self.optimizer.step()

    fit = Fit()
    for _ in range(3):
        fit.step()


def a_copy_in_each_step():
    start = torch.zeros(3, requires_grad=True)
    optimizer = torch.optim.Adam([start], lr=0.1)
    for _ in range(3):
        moved = start.to("cuda:1")
        (moved - 1).pow(2).sum().backward()
        optimizer.step()


def a_copy_that_is_looked_at_once():
    start = torch.zeros(3, requires_grad=True)
    optimizer = torch.optim.Adam([start], lr=0.1)
    first = start.to("cuda:1")
    for _ in range(3):
        (start - 1).pow(2).sum().backward()
        optimizer.step()
    assert first.shape == (3,)


def gradients_that_are_gathered():
    start = torch.zeros(3, requires_grad=True)
    optimizer = torch.optim.SGD([start], lr=0.1)
    moved = start.to("cuda:1")
    for _ in range(3):
        (moved - 1).pow(2).sum().backward()
    optimizer.step()


@pytest.mark.parametrize(
    ("program", "names"),
    [
        (of_the_model_itself, []),
        (of_what_was_copied, ["SGD"]),
        (of_what_was_replaced, ["Adam"]),
        (a_step_before_the_first_gradient, []),
        (two_in_turns, []),
        (none_has_gradients, []),
        (a_copy_that_is_made_once, ["moved"]),
        (a_copy_of_an_object, ["self.on_gpu"]),
        (a_copy_in_each_step, []),
        (a_copy_that_is_looked_at_once, []),
        (gradients_that_are_gathered, []),
    ],
)
def test_an_optimizer_is_told_that_works_in_vain(program, names):
    assert told(program) == names
