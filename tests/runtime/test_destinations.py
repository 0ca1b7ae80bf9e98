"""What an operator writes on another device than its own is noted, and holds afterwards what it would
hold.
"""

from __future__ import annotations

import pytest
import torch

pytestmark = pytest.mark.virtual(on_mismatch="record")

GPU, OTHER = "cuda:0", "cuda:1"
PLACES = ("cpu", OTHER)
LARGE = 600 * 600
"""Elements of a tensor that is too large to have values."""


def unknown(size=LARGE):
    return torch.ones(size, device=GPU) * 2


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("size", [0, 3])
def test_each_of_several_outs_is_written(machine, place, size):
    x = torch.tensor([3.0, 1.0, 2.0], device=GPU)
    values, indices = torch.empty(size, device=GPU), torch.empty(size, dtype=torch.long, device=place)
    returned = torch.sort(x, out=(values, indices))
    assert (values.tolist(), indices.tolist()) == ([1.0, 2.0, 3.0], [1, 2, 0])
    assert str(indices.device) == place
    assert returned.values is values
    assert returned.indices is indices
    assert [event.op for event in machine.events] == ["aten.sort.values"]


@pytest.mark.parametrize("places", [("cpu", "cpu"), ("cpu", OTHER), (OTHER, GPU)])
def test_outs_on_any_devices(machine, places):
    first, second = (torch.empty(2, device=place) for place in places)
    torch.split_copy(torch.arange(4.0, device=GPU), 2, out=[first, second])
    assert (first.tolist(), second.tolist()) == ([0.0, 1.0], [2.0, 3.0])
    assert len(machine.events) == 1


@pytest.mark.parametrize("place", PLACES)
def test_a_view_elsewhere_is_written_and_nothing_around_it(machine, place):
    whole = torch.zeros(4, device=place)
    torch.add(torch.ones(2, device=GPU), 1, out=whole[1:3])
    assert whole.tolist() == [0.0, 2.0, 2.0, 0.0]
    whole[::2].add_(torch.ones(2, device=GPU))
    assert whole.tolist() == [1.0, 2.0, 3.0, 0.0]


@pytest.mark.parametrize("place", PLACES)
def test_lists_are_written_element_by_element(machine, place):
    lists = [torch.zeros(2, device=place), torch.zeros(2, device=GPU)]
    grads = [torch.ones(2, device=GPU) * 3, torch.ones(2, device=GPU) * 5]
    torch._foreach_addcmul_(lists, grads, grads)
    assert [each.tolist() for each in lists] == [[9.0, 9.0], [25.0, 25.0]]
    assert [str(each.device) for each in lists] == [place, GPU]
    assert len(machine.events) == 1


@pytest.mark.parametrize("place", PLACES)
def test_a_fused_step_writes_its_state_wherever_it_is(machine, place):
    p, g = torch.ones(2, device=GPU), torch.ones(2, device=GPU)
    average, square, step = (
        torch.zeros(2, device=place),
        torch.zeros(2, device=OTHER),
        torch.ones((), device=GPU),
    )
    options = {
        "lr": 0.1,
        "beta1": 0.9,
        "beta2": 0.99,
        "weight_decay": 0.0,
        "eps": 1e-8,
        "amsgrad": False,
        "maximize": False,
    }
    torch._fused_adam_([p], [g], [average], [square], [], [step], **options)
    assert average.tolist() == pytest.approx([0.1, 0.1])
    assert square.tolist() == pytest.approx([0.01, 0.01])


FOREACH = [
    lambda own, x: torch._foreach_add_([own], [x]),
    lambda own, x: torch._foreach_addcmul_([own], [x], [x]),
    lambda own, x: torch._foreach_lerp_([own], [x], 0.1),
    lambda own, x: own.add_(x),
    lambda own, x: own.copy_(x),
    lambda own, x: torch.add(x, x, out=own),
    lambda own, x: own.resize_(0) is None or torch.add(x, x, out=own),
]


@pytest.mark.parametrize("write", FOREACH)
def test_what_nobody_computed_is_written_to_the_host_as_assumed(machine, write):
    own, x = torch.zeros(LARGE), unknown()
    write(own, x)
    assert own.shape == (LARGE,)
    part, x = torch.zeros(3), (unknown() + 1)[:3]
    write(part, x)
    assert machine.assumed_reads == []
    own[0].item()
    part.tolist()
    assert len(machine.assumed_reads) == 2


def test_what_is_overwritten_with_known_values_is_known_again(machine):
    part = torch.zeros(3)
    part.add_((unknown() + 1)[:3])
    twice = part * 2
    part[:1].zero_()
    part.fill_(1.0)
    part.tolist()
    assert machine.assumed_reads == []
    twice.tolist()
    assert len(machine.assumed_reads) == 1


def test_running_statistics_on_the_host_follow(machine):
    norm = torch.nn.BatchNorm1d(3).to(GPU)
    norm.running_mean = norm.running_mean.cpu()
    result = norm(torch.arange(6.0, device=GPU).view(2, 3))
    assert result.device == torch.device(GPU)
    assert norm.running_mean.tolist() == pytest.approx([0.15, 0.25, 0.35])
    assert len(machine.events) == 1


def test_running_statistics_of_unknown_values_are_unknown(machine):
    trained, evaluated = (torch.nn.BatchNorm2d(3).to(GPU) for _ in range(2))
    images = torch.randn(8, 3, 256, 256, device=GPU)
    trained(images)
    evaluated.eval()(images)
    assert "..." in repr(trained.running_mean)
    assert evaluated.running_mean.tolist() == [0.0] * 3
