"""`x.data = y` between the host and a GPU, with graphs that hold what was there before."""

from __future__ import annotations

import pytest
import torch
from torch import nn

pytestmark = pytest.mark.usefixtures("machine")


@pytest.mark.parametrize(("home", "target"), [("cpu", "cuda:0"), ("cuda:0", "cpu"), ("cuda:0", "cuda:1")])
@pytest.mark.parametrize("calls", [1, 2])
def test_a_graph_made_before_keeps_its_gradient(home, target, calls):
    """Torch adds it where it was computed, and leaves it there."""
    parameter = nn.Parameter(torch.arange(3.0, device=home))
    loss = (parameter * torch.tensor([1.0, 2.0, 3.0], device=home)).sum()
    parameter.data = parameter.data.to(target)
    for _ in range(calls):
        loss.backward(retain_graph=True)
    assert str(parameter.device) == target
    assert str(parameter.grad.device) == home
    assert parameter.grad.tolist() == [calls, 2 * calls, 3 * calls]


def test_a_model_that_was_away_is_trained():
    """To the host and back between forward and backward, as offloading does."""
    steps = []
    for moves in ((), ("cpu", "cuda:0")):
        torch.manual_seed(0)
        model = nn.Linear(3, 2).to("cuda:0")
        step = torch.optim.SGD(model.parameters(), lr=0.1)
        loss = model(torch.ones(4, 3, device="cuda:0")).square().sum()
        for place in moves:
            model.to(place)
        loss.backward()
        step.step()
        steps.append([parameter.detach().cpu() for parameter in model.parameters()])
    assert all(map(torch.equal, *steps))


def test_an_optimizer_meets_the_gradient_where_it_is():
    """On hardware, too, the gradient is still on the host, and the step is refused."""
    model = nn.Linear(3, 2)
    step = torch.optim.SGD(model.parameters(), lr=0.1, foreach=False)
    loss = model(torch.ones(4, 3)).sum()
    model.to("cuda:0")
    loss.backward()
    assert {str(parameter.grad.device) for parameter in model.parameters()} == {"cpu"}
    with pytest.raises(RuntimeError, match="same device"):
        step.step()
    model.cpu()
    step.step()
    assert {str(parameter.grad.device) for parameter in model.parameters()} == {"cpu"}


def test_gradients_of_two_devices_do_not_add_up():
    parameter = nn.Parameter(torch.ones(3))
    first = (parameter * 2).sum()
    parameter.data = parameter.data.to("cuda:0")
    (parameter * 3).sum().backward()
    with pytest.raises(RuntimeError, match="same device"):
        first.backward()


def test_hooks_are_called_once_and_with_the_parameter():
    parameter, told = nn.Parameter(torch.ones(3)), []
    parameter.register_hook(lambda gradient: told.append(str(gradient.device)) or gradient * 10)
    parameter.register_post_accumulate_grad_hook(lambda found: told.append(found is parameter))
    loss = (parameter * 2).sum()
    parameter.data = parameter.data.to("cuda:0")
    loss.backward()
    assert told == ["cpu", True]
    assert parameter.grad.tolist() == [20, 20, 20]
    parameter.grad = None
    (parameter * 3).sum().backward()
    assert told[2:] == ["cuda:0", True]
    assert parameter.grad.tolist() == [30, 30, 30]


def test_a_result_stays_a_result():
    """Its gradient comes on another device than it was made on, which autograd refuses on hardware."""
    weight = torch.ones(3, requires_grad=True)
    result = weight * 2
    result.data = result.data.to("cuda:0")
    assert str(result.device) == "cuda:0"
    assert not result.is_leaf
    with pytest.raises(
        RuntimeError, match="invalid gradient at index 0 - expected device cpu but got cuda:0"
    ):
        (result * 5).sum().backward()


def test_counts_of_writes_are_of_the_object():
    parameter, other = torch.ones(3), torch.zeros(3, device="cuda:0")
    parameter.add_(1).add_(1)
    other.add_(1)
    parameter.data = other
    assert (parameter._version, other._version) == (2, 1)
    parameter.add_(1)
    assert (parameter._version, other._version) == (3, 1)
    assert other.tolist() == [2, 2, 2]


def test_a_graph_that_nobody_asks_changes_nothing():
    parameter = nn.Parameter(torch.ones(3))
    held = (parameter * 2).sum()
    parameter.data = parameter.data.to("cuda:0")
    (parameter * 3).sum().backward()
    assert parameter.grad.tolist() == [3, 3, 3]
    assert str(parameter.grad.device) == "cuda:0"
    assert held.requires_grad


@pytest.mark.parametrize("places", [("cuda:0",), ("cuda:0", "cpu"), ("cuda:0", "cuda:1", "cpu")])
def test_torch_sees_the_tensor_that_it_had(places):
    """`_cdata` tells whether `.data` was set or the object swapped, `_base` names the object itself."""
    model = nn.Linear(3, 2)
    model.weight.grad = gradient = torch.ones(2, 3)
    view, addresses = model.weight[:], (model.weight._cdata, gradient._cdata)
    for place in places:
        model.to(place)
        assert view._base is model.weight
        assert model.weight.grad is gradient
        assert (model.weight._cdata, gradient._cdata) == addresses
        assert str(gradient.device) == place
    assert view.device.type == "cpu"


def test_a_gradient_stays_where_it_is():
    """`.data` moves the numbers of the parameter alone; `Module.to` moves the gradient, too."""
    parameter = nn.Parameter(torch.ones(3))
    parameter.grad = torch.ones(3)
    parameter.data = parameter.data.cuda()
    assert str(parameter.grad.device) == "cpu"
    assert parameter.grad.sum().item() == 3
    with pytest.raises(RuntimeError, match="same device"):
        torch.optim.SGD([parameter], lr=0.1, foreach=False).step()


def test_a_gradient_of_another_size_stays_where_it_is():
    """As FSDP1 with CPU offload: the shard on the host comes back before the whole gradient is reduced."""
    parameter = nn.Parameter(torch.ones(6, device="cuda:0"))
    (parameter * 3).sum().backward()
    shard = torch.full((3,), 5.0)
    parameter.data = shard
    assert str(parameter.device) == "cpu"
    assert str(parameter.grad.device) == "cuda:0"
    assert parameter.grad.tolist() == [3] * 6
    whole, parameter.grad = parameter.grad.data, None
    parameter.grad = whole[:3].cpu()
    torch.optim.SGD([parameter], 1.0).step()
    assert parameter.tolist() == shard.tolist() == [2] * 3


@pytest.mark.virtual(on_mismatch="raise")
def test_a_gradient_that_was_sent_to_the_host_meets_the_next_one(machine):
    """`x.grad` is the same object before and after, for Python and for autograd."""
    x = torch.ones(3, device="cuda", requires_grad=True)
    x.sum().backward()
    kept = x.grad
    x.grad.data = x.grad.data.cpu()
    assert x.grad is kept
    assert x.grad.device.type == "cpu"
    with pytest.raises(RuntimeError, match="found at least two devices, cuda:0 and cpu!"):
        x.sum().backward()
    x.grad.data = x.grad.data.cuda()
    x.sum().backward()
    assert x.grad.tolist() == [2, 2, 2]


@pytest.mark.parametrize("devices", [("meta", "cuda"), ("cuda", "meta"), ("meta", "cpu"), ("cpu", "meta")])
def test_nothing_on_meta_is_replaced_by_data(devices):
    here, there = (torch.ones(2, device=device) for device in devices)
    with pytest.raises(RuntimeError, match="incompatible tensor type"):
        here.data = there
