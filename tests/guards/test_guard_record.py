"""A guard that records: findings of real devices with the decisions that a virtual machine would keep."""

import gc
import json
import shutil
import subprocess
import sys
import threading
import weakref
from pathlib import Path

import pytest
import torch
from torch import nn

import samedevice as sd
from samedevice.guards._live import frames_of_program, speaks_of_devices
from samedevice.runtime import Recording

PROGRAMS = Path(__file__).with_name("recorded_programs.py")
NAMES = ("in_a_helper", "inputs_left", "labels_in_a_dictionary", "kept_in_a_list", "loaded")


@pytest.fixture(scope="module")
def shown():
    """What is said of the programs on two devices that are real for torch, and on virtual ones."""
    if shutil.which("g++") is None:
        pytest.skip("the twin devices are built with g++")
    done = subprocess.run([sys.executable, PROGRAMS], capture_output=True, text=True, check=True, timeout=300)
    return json.loads(done.stdout)


@pytest.mark.parametrize("name", NAMES)
def test_the_finding_is_that_of_a_virtual_machine(name, shown):
    assert shown["real"][name] == shown["virtual"][name]
    assert all(each["lineage"] for each in shown["real"][name]["operands"])


def test_without_a_record_the_birthplace_behind_a_call_is_not_known(shown):
    made = {
        how: [each["made"] for each in shown[how]["in_a_helper"]["operands"]] for how in ("real", "plain")
    }
    assert made == {"real": ["forward", "weights_for"], "plain": [None, None]}


def test_a_check_before_any_operator_has_the_record_too(shown):
    found = shown["real"]["window_left"]
    assert found["cause"] == shown["virtual"]["window_left"]["cause"]
    assert [each["made"] for each in found["operands"]] == ["window_left", "weights_for"]
    assert all(each["lineage"] for each in found["operands"])


def test_threads_are_recorded(shown):
    assert shown["thread"] == ["forward", "weights_for"]


def test_numbers_are_as_without():
    def trained(record):
        torch.manual_seed(0)
        model = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
        optimizer = torch.optim.AdamW(model.parameters())
        with sd.guard(record=record):
            for _ in range(3):
                model(torch.randn(2, 5, 16)).square().sum().backward()
                optimizer.step()
                optimizer.zero_grad()
        return torch.cat([each.detach().flatten() for each in model.parameters()])

    assert torch.equal(trained(False), trained(True))


def test_everything_is_as_before_afterwards():
    start, load = threading.Thread.start, torch.load
    with sd.guard(record=True), sd.guard(record=True):
        assert torch.ones(2).add(1).untyped_storage()._sd.made is not None
        assert threading.Thread.start is not start
    remove = sd.guard(record=True).install()
    assert torch.ones(2).add(1).untyped_storage()._sd.made is not None
    remove()
    assert (threading.Thread.start, torch.load) == (start, load)
    assert "_sd" not in vars(torch.UntypedStorage)


def test_nothing_is_kept_alive():
    with Recording(frames_of_program(), speaks_of_devices):
        tensor = torch.ones(3) * 2
        alive = weakref.ref(tensor)
        del tensor
        gc.collect()
        assert alive() is None


@pytest.mark.parametrize(
    "fails",
    [
        lambda: torch.ones(2, 3) @ torch.ones(2, 3),
        lambda: torch.ones(2).twice(),
        lambda: nn.functional.embedding(torch.tensor([9]), torch.ones(2, 2)),
    ],
)
def test_other_errors_are_left_alone(fails):
    with pytest.raises(Exception) as caught, sd.guard(record=True):
        fails()
    assert not hasattr(caught.value, "samedevice_event")
    assert not hasattr(caught.value, "finding")


def test_tensors_without_memory_of_their_own_pass():
    with sd.guard(record=True):
        sparse = torch.eye(3).to_sparse()
        assert (sparse @ torch.ones(3, 1)).sum() == 3
        nested = torch.nested.nested_tensor([torch.ones(2), torch.ones(3)])
        assert sum(part.sum() for part in nested.unbind()) == 5


def test_compiled_code_runs_as_it_was_written():
    runs = []

    def noted(x):
        runs.append(1)
        return x + 1

    compiled = torch.compile(noted, backend="eager")
    with sd.guard(record=True):
        made = compiled(torch.ones(2))
        assert made.untyped_storage()._sd.made.__class__ is tuple
    assert runs


def test_a_virtual_machine_inside_keeps_its_own_record():
    def helper(x):
        return x * torch.arange(4)

    with sd.guard(record=True):
        with pytest.raises(RuntimeError) as caught, sd.machine("1x24GB", on_mismatch="raise"), sd.guard():
            helper(torch.ones(4, device="cuda:0"))
        assert torch.ones(2).add(1).untyped_storage()._sd.made is not None
    assert caught.value.finding.operands[1].made.function == "helper"
