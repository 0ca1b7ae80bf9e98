"""Everything that takes a tensor as the source of a device goes to the tensor's true device."""

import pytest
import torch

from samedevice.machines import parse_machine
from samedevice.runtime import VirtualMachine

WAYS = {
    "Module.to": lambda x: torch.nn.Linear(2, 2).to(x).weight,
    "Module.to, by name": lambda x: torch.nn.Linear(2, 2).to(tensor=x).weight,
    "Module.to, not blocking": lambda x: torch.nn.Linear(2, 2).to(x, non_blocking=True).weight,
    "Module.to, of a parameter": lambda x: torch.nn.Linear(2, 2).to(torch.nn.Parameter(x)).weight,
    "Module.to, from another GPU": lambda x: torch.nn.Linear(2, 2).to("cuda:0").to(x).weight,
    "Tensor.to": lambda x: torch.ones(2).to(x),
    "Tensor.to, by name": lambda x: torch.ones(2).to(other=x),
    "type_as": lambda x: torch.ones(2).type_as(x),
    "PackedSequence.to": lambda x: torch.nn.utils.rnn.pack_sequence([torch.ones(2, 3)]).to(x).data,
    "new_zeros": lambda x: x.new_zeros(2),
    "new_tensor": lambda x: x.new_tensor([1.0]),
    "ones_like": torch.ones_like,
    "randint_like": lambda x: torch.randint_like(x, 3),
    "tensor": lambda x: torch.tensor([1.0], device=x.device, dtype=x.dtype),
    "get_device, the method": lambda x: torch.ones(1, device=x.get_device(), dtype=x.dtype),
    "get_device, the function": lambda x: torch.ones(1, device=torch.get_device(x), dtype=x.dtype),
}


@pytest.mark.parametrize("way", WAYS)
def test_a_tensor_as_the_source_of_a_device(way):
    with VirtualMachine(parse_machine("2x24GB")) as machine:
        made = WAYS[way](torch.ones(1, device="cuda:1", dtype=torch.float64))
        assert made.device == torch.device("cuda:1")
        assert made.dtype == torch.float64
    assert machine.events == []


def test_a_tensor_of_the_host_as_the_source_of_a_device():
    with VirtualMachine(parse_machine("2x24GB")):
        assert torch.nn.Linear(2, 2).cuda().to(torch.ones(1)).weight.device == torch.device("cpu")
        assert torch.get_device(torch.ones(1)) == -1
