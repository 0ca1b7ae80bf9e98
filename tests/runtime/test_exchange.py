"""Handing tensors on: DLPack inside a process, queues between processes."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.multiprocessing
import torch.utils.dlpack

from samedevice.errors import UnsupportedFeatureError
from samedevice.machines import parse_machine
from samedevice.runtime import VirtualMachine

pytestmark = pytest.mark.virtual(on_mismatch="record")


@pytest.mark.parametrize(
    "hand_over",
    [
        lambda x: torch.from_dlpack(torch.utils.dlpack.to_dlpack(x)),
        torch.from_dlpack,
        lambda x: torch.from_dlpack(x.__dlpack__()),
    ],
)
def test_dlpack_shares_the_memory_of_a_virtual_tensor(machine, hand_over):
    x = torch.arange(6.0, device="cuda").view(2, 3).t()
    y = hand_over(x)
    y[0, 1] = 9
    assert (y.device, y.stride(), y.data_ptr()) == (x.device, x.stride(), x.data_ptr())
    assert x[0, 1].item() == 9
    assert machine.memory()["cuda:0"].allocated == 512


def test_a_capsule_is_taken_once(machine):
    capsule = torch.utils.dlpack.to_dlpack(torch.ones(2, device="cuda"))
    torch.from_dlpack(capsule)
    with pytest.raises(RuntimeError, match="can be consumed only once"):
        torch.from_dlpack(capsule)


def test_asarray_takes_a_capsule(machine):
    x = torch.ones(3, device="cuda")
    torch.asarray(torch.utils.dlpack.to_dlpack(x), copy=False).fill_(2)
    assert x.tolist() == [2.0] * 3
    other = torch.asarray(torch.utils.dlpack.to_dlpack(x), device="cuda:1")
    assert other.device == torch.device("cuda:1")
    assert other.tolist() == x.tolist()


def test_another_library_is_refused_in_one_error_of_ours(machine):
    with pytest.raises(UnsupportedFeatureError, match=r"Hand over tensor.cpu\(\) instead"):
        np.from_dlpack(torch.ones(2, device="cuda"))
    with pytest.raises(TypeError, match="can't convert cuda:0 device type tensor to numpy"):
        torch.ones(2, device="cuda").numpy()


def _sent(tensor):
    """What another process would get: torch's own pickler, here read in the same process."""
    return torch.multiprocessing.reductions.reduce_tensor(tensor)


def test_what_is_sent_shares_its_values_and_takes_no_memory_there(machine):
    x = torch.arange(6.0, device="cuda:1").view(2, 3)[:, 1:]
    rebuild, given = _sent(x)
    held = machine.memory()["cuda:1"].allocated
    y = rebuild(*given)
    assert (y.device, y.stride(), y.storage_offset(), y.tolist()) == (x.device, x.stride(), 1, x.tolist())
    y[0, 0] = 7
    x[1, 1] = 8
    assert (x[0, 0].item(), y[1, 1].item()) == (7, 8)
    assert machine.memory()["cuda:1"].allocated == held
    parameter = torch.nn.Parameter(torch.ones(2, device="cuda"))
    rebuild, given = _sent(parameter)
    assert isinstance(rebuild(*given), torch.nn.Parameter)


def test_memory_without_values_is_sent_without(machine):
    x = torch.empty(1 << 20, device="cuda:1").normal_()
    rebuild, given = _sent(x)
    y = rebuild(*given)
    assert (y.device, y.shape) == (x.device, x.shape)
    assert "..." in repr(y)


def test_a_result_with_a_gradient_is_refused_as_torch_does(machine):
    with pytest.raises(RuntimeError, match="Cowardly refusing to serialize non-leaf tensor"):
        _sent(torch.ones(2, device="cuda", requires_grad=True) * 2)


def test_a_process_without_a_machine_says_so():
    with VirtualMachine(parse_machine("2x24GB")):
        rebuild, given = _sent(torch.ones(2, device="cuda"))
    with pytest.raises(UnsupportedFeatureError, match=r"Send tensor.cpu\(\)"):
        rebuild(*given)
