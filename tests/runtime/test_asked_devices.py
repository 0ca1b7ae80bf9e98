"""Whose device a tensor took: of the one that was asked for it, wherever and whenever that was."""

import gc

import pytest
import torch

from samedevice.runtime.state import memory_of
from samedevice.runtime.state.asked_devices import taken_from

pytestmark = pytest.mark.virtual(on_mismatch="record")


class State:
    """Keeps the device of a tensor that it does not keep."""

    def __init__(self, like):
        self.dtype, self.device = like.dtype, like.device

    def more(self):
        return torch.zeros(3, device=self.device)


def allocate():
    return torch.ones(4)


def on_device(device):
    return torch.ones(3, device=device)


def taken(machine, operand=1):
    """What the newest decision of an operand of the last event took its device from."""
    return machine.events[-1].operands[operand].decision.taken


def test_an_attribute_leads_to_a_tensor_that_is_gone(machine):
    model = torch.nn.Linear(3, 3).to("cuda:1")
    state = State(allocate())
    gc.collect()
    torch.add(model.bias, state.more())
    step = machine.events[-1].operands[1].decision
    assert (step.source, step.said) == ("tensor", "self")
    assert step.taken.at.code == "return torch.ones(4)"
    assert step.taken.source == "default"


def test_an_argument_leads_to_the_weight_that_was_asked(machine):
    model = torch.nn.Linear(3, 3).to("cuda:1")
    torch.add(torch.ones(3, device="cuda:0"), on_device(next(model.parameters()).device))
    assert (taken(machine).kind, taken(machine).device) == ("placed", "cuda:1")
    assert taken(machine).at.code == 'model = torch.nn.Linear(3, 3).to("cuda:1")'


@pytest.mark.parametrize(
    "move",
    [
        lambda x, device: x.to(device),
        lambda x, device: x.to(device=device),
        lambda x, device: x.cuda(device),
        lambda x, device: torch.tensor([1.0, 2.0, 3.0], device=device),
        lambda x, device: torch.as_tensor(x, device=device),
        lambda x, device: torch.zeros_like(x, device=device),
        lambda x, device: x.new_zeros(3, device=device),
        lambda x, device: x.to(torch.device(device)),
        lambda x, device: torch.nn.Parameter(x).to(device),
        lambda x, device: x.to(torch.empty(3, device=device)),
    ],
)
def test_every_way_of_giving_a_device(machine, move):
    asked = torch.ones(3).to("cuda:1")
    torch.add(torch.ones(3, device="cuda:0"), move(torch.ones(3), asked.device))
    step = taken(machine)
    while step.taken is not None:
        step = step.taken
    assert step.at.code == 'asked = torch.ones(3).to("cuda:1")'


def test_a_module_passes_it_on_to_its_weights(machine):
    asked = torch.ones(3).to("cuda:1")
    model = torch.nn.Linear(3, 3).to(asked.device)
    torch.add(torch.ones(3, device="cuda:0"), model.bias)
    assert taken(machine).at.code == 'asked = torch.ones(3).to("cuda:1")'


def test_a_device_that_a_line_made(machine):
    chosen = torch.device("cuda:1")
    torch.add(torch.ones(3, device="cuda:0"), on_device(chosen))
    step = machine.events[-1].operands[1].decision
    assert step.taken is None
    assert step.device_at.code == 'chosen = torch.device("cuda:1")'


def test_a_text_and_a_number_are_from_nowhere(machine):
    for device in ("cuda:1", 1):
        torch.add(torch.ones(3, device="cuda:0"), on_device(device))
        step = machine.events[-1].operands[1].decision
        assert (step.taken, step.device_at) == (None, None)


def test_only_the_object_that_was_told_is_known_again(machine):
    asked = torch.ones(3, device="cuda:1")
    torch.add(torch.ones(3, device="cuda:0"), asked)
    assert taken_from(asked.device).order == memory_of(asked).decision.order
    assert asked.device == torch.device("cuda:1")
    assert taken_from(type(asked.device)("cuda", 1)) is None


def test_a_long_row_of_those_that_took_it_from_one_another_stays_short(machine):
    first = each = torch.ones(3).to("cuda:1")
    for _ in range(50):
        each = on_device(each.device)
    steps, step = 0, memory_of(each).decision
    while step.taken is not None:
        step, steps = step.taken, steps + 1
    assert steps <= 8
    assert step.order == memory_of(first).decision.order
