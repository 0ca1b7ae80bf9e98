"""Events of refused operators."""

import pytest
import torch

from samedevice.machines import parse_machine
from samedevice.runtime import VirtualMachine


def add(a, b):
    return a + b


def refused(a, b):
    with pytest.raises(RuntimeError) as caught:
        add(a, b)
    return caught.value.samedevice_event


def test_each_error_carries_its_own_event():
    with VirtualMachine(parse_machine("3x24GB"), on_mismatch="raise") as machine:
        x, y, z = (torch.ones(2, device=f"cuda:{i}") for i in range(3))
        first, second = refused(x, y), refused(y, z)
    assert [[operand.device for operand in event.operands] for event in (first, second)] == [
        ["cuda:0", "cuda:1"],
        ["cuda:1", "cuda:2"],
    ]
    assert len(machine.events) == 1
    assert machine.event_counts == [2]
