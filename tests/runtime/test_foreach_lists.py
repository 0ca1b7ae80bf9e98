"""Lists over several devices: CUDA hands each tensor to an operator of its own, which compares devices."""

from __future__ import annotations

import pytest
import torch

from samedevice.machines import parse_machine
from samedevice.runtime import VirtualMachine


@pytest.fixture
def machine():
    with VirtualMachine(parse_machine("2x24GB"), on_mismatch="raise") as entered:
        yield entered


def one(device="cuda", dtype=torch.float32):
    return torch.ones((), dtype=dtype, device=device)


ACCEPTED = {
    "a list over two devices": lambda: torch._foreach_add_([one("cpu"), one()], torch.tensor(1.0), alpha=1.0),
    "another type": lambda: torch._foreach_add_([one(dtype=torch.float16)], torch.tensor(1.0), alpha=1.0),
    "with results": lambda: torch._foreach_add([one("cpu"), one()], torch.tensor(1.0), alpha=1.0),
}
REFUSED = {
    "one kernel": (
        lambda: torch._foreach_add_([one()], torch.tensor(1.0), alpha=1.0),
        "scalar tensor expected to be on cuda:0 but is on cpu",
    ),
    "a number on the GPU": (
        lambda: torch._foreach_add_([one("cpu")], one(), alpha=1.0),
        "scalar tensor expected to be on cpu but is on cuda:0",
    ),
    "a number on the GPU and another type": (
        lambda: torch._foreach_add_([one("cpu", torch.float16)], one(), alpha=1.0),
        "Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu!",
    ),
}
CLAMPS = {"maximum": "clamp_min", "clamp_min": "clamp_min", "minimum": "clamp_max", "clamp_max": "clamp_max"}


@pytest.mark.parametrize("name", ACCEPTED)
def test_accepted(machine, name):
    ACCEPTED[name]()
    assert machine.events == []


def test_each_keeps_its_place(machine):
    tensors = [one("cpu"), one()]
    torch._foreach_add_(tensors, torch.tensor(1.0), alpha=2.0)
    assert [(str(each.device), each.item()) for each in tensors] == [("cpu", 3.0), ("cuda:0", 3.0)]


@pytest.mark.parametrize("name", REFUSED)
def test_refused(machine, name):
    run, text = REFUSED[name]
    with pytest.raises(RuntimeError) as raised:
        run()
    assert str(raised.value) == text


@pytest.mark.parametrize("in_place", ["", "_"])
@pytest.mark.parametrize(("name", "called"), CLAMPS.items())
def test_the_largest_of_two(machine, name, called, in_place):
    run = getattr(torch, f"_foreach_{name}{in_place}")
    with pytest.raises(RuntimeError) as raised:
        run([one("cpu")], [one()])
    assert str(raised.value) == (
        f"Expected all tensors to be on the same device, but got {called[-3:]} is on cuda:0, different from "
        f"other tensors on cpu (when checking argument in method wrapper_CUDA_{called}{in_place}_Tensor)"
    )
