"""Optimizers group their tensors by device: who goes together, and what torch says to the others."""

from __future__ import annotations

import itertools

import pytest
import torch

from samedevice.machines import parse_machine
from samedevice.runtime import VirtualMachine

GPU, OTHER = "cuda:0", "cuda:1"
group = torch.utils._foreach_utils._group_tensors_by_device_and_dtype
own = torch._C._group_tensors_by_device_and_dtype
TYPES = (torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64)


def torchs_own(*lists):
    """What torch says to tensors on the host, and on meta for a device of another kind."""
    try:
        own([list(each) for each in lists], False)
    except RuntimeError as error:
        return str(error)
    return None


APART = torchs_own([torch.ones(1)], [torch.ones(1, device="meta")])


def test_torch_refuses_another_device():
    assert "Tensors of the same index must be on the same device and the same dtype" in APART


@pytest.mark.parametrize(("first", "second"), [*itertools.product(TYPES, TYPES)])
def test_types_as_torch_takes_them(first, second):
    expected = torchs_own([torch.ones(1, dtype=first)], [torch.ones(1, dtype=second)])
    with VirtualMachine(parse_machine("2x24GB"), on_mismatch="raise") as machine:
        try:
            group([[torch.ones(1, dtype=first, device=GPU)], [torch.ones(1, dtype=second, device=GPU)]])
            found = None
        except RuntimeError as error:
            found = str(error)
        assert found == expected
        assert machine.events == []


@pytest.mark.parametrize("kept", TYPES)
@pytest.mark.parametrize(("home", "place"), [(GPU, "cpu"), ("cpu", GPU), (GPU, OTHER)])
def test_devices_as_torch_takes_them(home, place, kept):
    """A step on the host goes with a parameter on a GPU; nothing else goes with one elsewhere."""
    host = torchs_own([torch.ones(1, device="meta")], [torch.ones(1, dtype=kept)])
    expected = host if place == "cpu" else APART
    with VirtualMachine(parse_machine("2x24GB")) as machine:
        group([[torch.ones(1, device=home)], [torch.ones(1, dtype=kept, device=place)]])
        assert [event.message for event in machine.events] == ([] if expected is None else [expected])


def test_groups_are_by_device_and_type(machine):
    parameters = [
        torch.ones(1, device=GPU),
        torch.ones(1, device=OTHER),
        torch.ones(1, device=GPU),
        torch.ones(1, dtype=torch.float16, device=GPU),
    ]
    steps = [torch.tensor(1.0) for _ in parameters]
    groups = group([parameters, steps, [], [None] * 4], with_indices=True)
    assert {key: indices for key, (_, indices) in groups.items()} == {
        (torch.device(GPU), torch.float32): [0, 2],
        (torch.device(OTHER), torch.float32): [1],
        (torch.device(GPU), torch.float16): [3],
    }
    assert groups[torch.device(GPU), torch.float32][0] == [
        [parameters[0], parameters[2]],
        [steps[0], steps[2]],
        [],
        [None, None],
    ]
    assert machine.events == []


@pytest.mark.parametrize("way", ["foreach", "fused"])
def test_parameters_that_were_moved_after_a_step(way):
    with VirtualMachine(parse_machine("2x24GB"), on_mismatch="raise") as machine:
        model = torch.nn.Linear(3, 2).to(GPU)
        optimizer = torch.optim.Adam(model.parameters(), **{way: True})

        def step():
            optimizer.zero_grad()
            model(torch.ones(1, 3, device=model.weight.device)).sum().backward()
            optimizer.step()

        step()
        model.to("cpu")
        with pytest.raises(RuntimeError) as raised:
            step()
        assert str(raised.value) == APART
        assert [event.op for event in machine.events] == ["_group_tensors_by_device_and_dtype"]
