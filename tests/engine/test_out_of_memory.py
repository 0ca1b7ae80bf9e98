"""A GPU that is full: torch's own error and text, an event with the ledger, and life after it."""

from __future__ import annotations

import gc
import re

import pytest
import torch

from samedevice.events import EventKind
from samedevice.machines import parse_machine
from samedevice.runtime import VirtualMachine

pytestmark = pytest.mark.virtual(on_mismatch="record")

GiB = 1 << 30


def total(machine):
    return machine.memory()["cuda:0"].total


def test_the_error_is_torchs_own(machine):
    held = torch.empty(4 * GiB, dtype=torch.uint8, device="cuda")
    with pytest.raises(torch.OutOfMemoryError) as caught:
        torch.empty(30 * GiB, dtype=torch.uint8, device="cuda")
    assert isinstance(caught.value, torch.cuda.OutOfMemoryError)
    assert isinstance(caught.value, RuntimeError)
    text = str(caught.value)
    assert re.match(
        r"CUDA out of memory\. Tried to allocate 30\.00 GiB\. GPU 0 has a total capacity of \d+\.\d\d GiB "
        r"of which \d+\.\d\d GiB is free\. "
        r".*Of the allocated memory 4\.00 GiB is allocated by PyTorch, and 0\.00 KiB is reserved by PyTorch "
        r"but unallocated\. "
        r"If reserved but unallocated memory is large try setting PYTORCH_",
        text.replace("0 bytes", "0.00 KiB"),
    )
    assert "expandable_segments:True to avoid fragmentation." in text
    assert held.nbytes == 4 * GiB


def test_the_event_carries_the_ledger(machine):
    held = torch.empty(2 * GiB, dtype=torch.uint8, device="cuda:1")
    with pytest.raises(torch.OutOfMemoryError) as caught:
        torch.empty(40 * GiB, dtype=torch.uint8, device="cuda:1")
    [event] = machine.events
    assert event.kind is EventKind.OUT_OF_MEMORY
    assert event.message == str(caught.value)
    assert event.memory["cuda:1"].allocated == held.nbytes
    assert event.memory["cuda:0"].allocated == 0
    assert event.at.file == __file__
    assert "40 * GiB" in event.at.code


@pytest.mark.parametrize("on_mismatch", ["record", "raise"])
def test_it_is_raised_in_either_mode(on_mismatch):
    with (
        VirtualMachine(parse_machine("1x16GB"), on_mismatch=on_mismatch),
        pytest.raises(torch.OutOfMemoryError),
    ):
        torch.empty(20 * GiB, dtype=torch.uint8, device="cuda")


def test_a_script_catches_it_and_tries_a_smaller_batch(machine):
    batch, tried = 64, []
    while True:
        tried.append(batch)
        try:
            result = torch.ones(batch, GiB, dtype=torch.uint8, device="cuda") + 1
            break
        except torch.cuda.OutOfMemoryError:
            torch.cuda.empty_cache()
            batch //= 2
    assert tried == [64, 32, 16, 8]
    assert result.shape == (8, GiB)
    # The failed allocation of a result leaves its inputs to the garbage collector, not to the ledger.
    gc.collect()
    assert machine.memory()["cuda:0"].allocated == 8 * GiB
    assert len(machine.events) == 1
    assert machine.event_counts == [3]


@pytest.mark.parametrize(
    ("nbytes", "booked"),
    [(0, 0), (1, 512), (512, 512), (513, 1024), (4096, 4096), ((1 << 20) + 1, (1 << 20) + 512)],
)
def test_blocks_are_multiples_of_512_bytes(machine, nbytes, booked):
    held = torch.empty(nbytes, dtype=torch.uint8, device="cuda")
    assert machine.memory()["cuda:0"].allocated == booked
    assert torch.cuda.memory_allocated() == booked
    del held
    assert torch.cuda.memory_allocated() == 0


def test_the_last_byte_fits_and_one_more_does_not(machine):
    capacity = total(machine) // 512 * 512
    held = torch.empty(capacity, dtype=torch.uint8, device="cuda")
    with pytest.raises(torch.OutOfMemoryError):
        torch.empty(1, dtype=torch.uint8, device="cuda")
    del held
    assert torch.empty(capacity, dtype=torch.uint8, device="cuda").nbytes == capacity


def test_deleted_memory_is_used_again(machine):
    for _ in range(10):
        held = torch.empty(20 * GiB, dtype=torch.uint8, device="cuda")
        del held
    assert machine.memory()["cuda:0"].peak_allocated == 20 * GiB
    assert machine.memory()["cuda:0"].allocated == 0
    assert machine.events == []


def test_views_keep_their_memory(machine):
    held = torch.empty(20 * GiB, dtype=torch.uint8, device="cuda")
    view = held[:1]
    del held
    with pytest.raises(torch.OutOfMemoryError):
        torch.empty(20 * GiB, dtype=torch.uint8, device="cuda")
    del view
    torch.empty(20 * GiB, dtype=torch.uint8, device="cuda")


def test_devices_have_ledgers_of_their_own(machine):
    first = torch.empty(20 * GiB, dtype=torch.uint8, device="cuda:0")
    second = first.to("cuda:1")
    with pytest.raises(torch.OutOfMemoryError, match="GPU 1 has"):
        second.clone()
    del first
    assert second.to("cuda:0").device == torch.device("cuda:0")
    assert machine.memory()["cuda:1"].allocated == 20 * GiB


def test_growing_a_tensor_beyond_the_device(machine):
    tensor = torch.empty(4, dtype=torch.uint8, device="cuda")
    with pytest.raises(torch.OutOfMemoryError):
        tensor.resize_(40 * GiB)
    del tensor
    gc.collect()
    assert machine.memory()["cuda:0"].allocated == 0


def test_autograd_keeps_what_backward_needs(machine):
    weight = torch.ones(GiB // 4, device="cuda", requires_grad=True)
    result = weight.exp().sin().sum()
    held = machine.memory()["cuda:0"].allocated
    assert 2 * GiB <= held < 2 * GiB + 4096, (
        "the weight and the saved result of exp, which is what sin saves too"
    )
    assert machine.memory()["cuda:0"].peak_allocated >= 3 * GiB
    result.backward()
    del result
    gc.collect()
    assert machine.memory()["cuda:0"].allocated == 2 * GiB, "the weight and its gradient"


def test_an_operator_that_runs_out_leaves_its_inputs_alone(machine):
    column = torch.ones(200_000, 1, device="cuda")
    before = machine.memory()["cuda:0"].allocated
    with pytest.raises(torch.OutOfMemoryError):
        column + torch.ones(1, 200_000, device="cuda")
    gc.collect()
    assert machine.memory()["cuda:0"].allocated == before
    assert column[0].item() == 1


def test_peaks_can_be_reset_but_the_run_remembers(machine):
    torch.empty(10 * GiB, dtype=torch.uint8, device="cuda")
    torch.cuda.reset_peak_memory_stats()
    assert torch.cuda.max_memory_allocated() == 0
    assert machine.memory()["cuda:0"].peak_allocated == 10 * GiB
