"""Modules on the host that are called with tensors of a GPU: no gradient is lost."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import samedevice as sd


class OnTheHost(nn.Linear):
    """Computes on the host, wherever its input is."""

    def forward(self, x):
        return super().forward(x.cpu()).to(x.device)


def gradients_of(near, far, *, at_once):
    """The gradients after two calls, with one backward or with two."""
    torch.manual_seed(0)
    model = OnTheHost(4, 4)
    x = torch.arange(8.0).view(2, 4)
    first = model(x.to(near)).sum()
    if not at_once:
        first.backward()
    second = model(x.to(far) * 2).square().sum()
    (second + first.to(far) if at_once else second).backward()
    return [parameter.grad.cpu() for parameter in model.parameters()]


@pytest.mark.parametrize("at_once", [True, False])
@pytest.mark.parametrize(("near", "far"), [("cpu", "cuda"), ("cuda", "cpu"), ("cuda", "cuda")])
def test_gradients_of_two_calls_add_up(near, far, at_once):
    expected = gradients_of("cpu", "cpu", at_once=at_once)
    with sd.machine("1x24GB") as machine:
        found = gradients_of(near, far, at_once=at_once)
        assert all(map(torch.equal, found, expected))
    assert not machine.findings


def test_the_gradient_stays_the_same_object():
    with sd.machine("1x24GB"):
        model = OnTheHost(4, 4)
        model(torch.ones(2, 4)).sum().backward()
        kept = model.weight.grad
        model(torch.ones(2, 4, device="cuda"))
        assert model.weight.grad is kept
        kept.zero_()
        assert not model.weight.grad.any()


def test_a_mismatch_after_a_call_from_the_host_is_still_found():
    with sd.machine("1x24GB", on_mismatch="record") as machine:
        model = nn.Linear(4, 4)
        first = model(torch.ones(2, 4)).sum()
        (model(torch.ones(2, 4, device="cuda")).sum() + first.cuda()).backward()
        assert model.weight.grad is not None
    assert len(machine.findings) == 1


class SumOnTheHost(nn.Linear):
    """Computes a number on the host, which a GPU takes as it is."""

    def forward(self, x):
        return self.weight.square().sum() * x


@pytest.mark.parametrize("place", ["cuda", "cpu"])
def test_gradients_of_gradients_go_through_the_host(place):
    with sd.machine("1x24GB", on_mismatch="raise"):
        model = SumOnTheHost(3, 1, bias=False)
        with torch.no_grad():
            model.weight.copy_(torch.arange(1.0, 4.0))
        model.to(place)
        loss = model(torch.arange(3.0, device="cuda")).square().sum()
        (first,) = torch.autograd.grad(loss, [model.weight], create_graph=True)
        first.square().sum().backward()
        assert first.tolist() == [[280, 560, 840]]
        assert model.weight.grad.tolist() == [[470400, 940800, 1411200]]
