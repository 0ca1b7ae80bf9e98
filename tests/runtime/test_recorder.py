"""Events of refused operators."""

import threading
from pathlib import Path

import pytest
import torch

import samedevice as sd
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


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_mismatch_without_a_frame_of_a_program_is_an_event():
    text = "nn.Linear(2, 2).to('cuda:1')(torch.ones(2, 2, device='cuda:0'))"
    code = compile(text, str(Path(sd.__file__).parent / "nothing.py"), "exec")
    with sd.machine("2x24GB", on_mismatch="raise") as machine:
        thread = threading.Thread(target=exec, args=(code, {"torch": torch, "nn": torch.nn}))
        thread.start()
        thread.join()
        assert [each.op for each in machine.findings] == ["aten.addmm.default"]
