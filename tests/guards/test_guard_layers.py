"""Layers belong to the one instance: copies, pickles and replicas have their own methods."""

from __future__ import annotations

import copy
import functools
import pickle

import pytest
import torch
from torch import nn

import samedevice as sd
from samedevice.guards import add_layer


def counted(calls):
    def layer(method):
        def call(*args, **kwargs):
            calls.append(method)
            return method(*args, **kwargs)

        return call

    return layer


def through_pickle(module):
    return pickle.loads(pickle.dumps(module))


@pytest.mark.parametrize("copied", [copy.deepcopy, through_pickle])
@torch.no_grad()
def test_a_copy_computes_with_its_own_weights(copied):
    calls, x = [], torch.ones(1, 2)
    model = nn.Linear(2, 2)
    kept = set(vars(model))
    remove = add_layer(model, "forward", counted(calls))
    other = copied(model)
    nn.init.zeros_(other.weight)
    nn.init.zeros_(other.bias)
    assert torch.equal(other(x), torch.zeros(1, 2))
    assert not calls
    assert not torch.equal(model(x), torch.zeros(1, 2))
    assert len(calls) == 1
    remove()
    assert set(vars(model)) == kept
    assert torch.equal(copied(other)(x), torch.zeros(1, 2))


def doubled(module, x):
    return nn.Linear.forward(module, x) * 2


@torch.no_grad()
def test_a_copy_keeps_what_stood_there_before():
    """As accelerate puts its hooks on: a partial that holds the module, which a copy of the module has a copy
    of.
    """
    model = nn.Linear(2, 2)
    model.forward = before = functools.partial(doubled, model)
    remove = add_layer(model, "forward", counted([]))
    other = copy.deepcopy(model)
    nn.init.zeros_(other.weight)
    nn.init.ones_(other.bias)
    assert torch.equal(other(torch.ones(1, 2)), torch.full((1, 2), 2.0))
    remove()
    assert model.forward is before


@torch.no_grad()
def test_replicas_use_the_weights_of_their_own_gpu():
    with sd.machine("2x24GB"):
        calls, x = [], torch.ones(4, 2, device="cuda:0")
        model = nn.Linear(2, 2).to("cuda:0")
        expected = model(x)
        remove = add_layer(model, "forward", counted(calls))
        assert torch.equal(nn.DataParallel(model)(x), expected)
        assert not calls
        model(x)
        assert len(calls) == 1
        remove()
        assert "_replicate_for_data_parallel" not in vars(model)


@torch.no_grad()
def test_a_copy_of_a_healed_model_is_not_healed():
    model = nn.Linear(2, 2)
    sd.heal(model)
    average = copy.deepcopy(model)
    nn.init.zeros_(average.weight)
    nn.init.zeros_(average.bias)
    for _ in range(3):
        model(torch.ones(1, 2))
        assert torch.equal(average(torch.ones(1, 2)), torch.zeros(1, 2))


def test_a_scheduler_made_for_an_optimizer_with_a_layer():
    calls, weight = [], nn.Parameter(torch.ones(1))
    optimizer = torch.optim.SGD([weight], lr=0.5)
    remove = add_layer(optimizer, "step", counted(calls))
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.5)
    for expected in (0.5, 0.25):
        weight.grad = torch.ones(1)
        optimizer.step()
        scheduler.step()
        assert weight.item() == expected
    assert len(calls) == 2
    remove()
    optimizer.step()
    assert (len(calls), weight.item()) == (2, 0.125)
