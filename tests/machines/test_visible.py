"""`CUDA_VISIBLE_DEVICES` means what torch, after CUDA's driver, takes it to mean."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from samedevice.machines import parse_machine, visible_gpus
from samedevice.preflight import Request, preflight
from samedevice.runtime import VirtualMachine

UUIDS = ("GPU-5a3e0000", "GPU-5a3e0001", "GPU-77770002", "GPU-77770003")


@pytest.mark.parametrize(
    ("setting", "seen"),
    [
        (None, (0, 1, 2, 3)),
        ("", ()),
        ("2,1", (2, 1)),
        ("0,2,-1,1", (0, 2)),  # the guide's own example
        ("0,4,1", (0,)),
        ("0,0", ()),
        ("1,3,1", ()),
        ("0,-1,0", (0,)),
        ("0,9,9", ()),
        (" 1 , 0", (1, 0)),
        ("1gpu2,2ampere", (1, 2)),  # torch's own example
        ("0,one,2", (0,)),
        ("NoDevFiles", ()),
        ("GPU-7777", (2,)),
        ("GPU-77770003,GPU-5a3e", (3, 0)),
        ("GPU-7777,GPU-77770002", ()),
        ("GPU-1234,0", ()),
        ("0,GPU-77770002", (0, 2)),
    ],
)
def test_meaning(setting, seen):
    assert visible_gpus(setting, 4, UUIDS) == seen


@pytest.mark.parametrize(
    ("setting", "seen"),
    [
        ("GPU-12ab,GPU-34cd", (0, 1)),
        ("GPU-12ab,0", (1, 0)),
        ("GPU-12ab,GPU-12ab", ()),
        ("MIG-GPU-12ab/1/0", (0,)),
    ],
)
def test_uuids_of_a_machine_that_is_elsewhere(setting, seen):
    assert visible_gpus(setting, 4) == seen


@given(st.lists(st.sampled_from(["0", "1", "2", "3", "7", "-1", "", " 2", "1x", "x", "+3"]), max_size=5))
def test_numbers_as_torch_reads_them(entries):
    setting = ",".join(entries)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CUDA_VISIBLE_DEVICES", setting)
        numbers = torch.cuda._parse_visible_devices()
    told = next((place for place, index in enumerate(numbers) if index >= 4), len(numbers))
    assert visible_gpus(setting, 4) == tuple(numbers[:told])


@pytest.mark.parametrize(("setting", "count"), [("0,0", 0), ("1,0", 2), ("0,5,1", 1), ("2x", 1)])
def test_one_meaning_for_a_run_and_before_it(setting, count, monkeypatch, tmp_path):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", setting)
    with VirtualMachine(parse_machine("4x24GB")):
        assert torch.cuda.device_count() == count
    script = tmp_path / "train.py"
    script.write_text("import torch\n")
    (judgement,) = preflight(
        Request(script, parse_machine("4x24GB"), environment={"CUDA_VISIBLE_DEVICES": setting})
    )
    assert len(judgement.launch.visible) == count
