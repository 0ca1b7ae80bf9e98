"""The script for real hardware, with a virtual GPU in its place."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("transformers")

import samedevice as sd
from tools import hardware_proof

SCRIPT = Path(__file__).parents[2] / "tools" / "hardware_proof.py"


@pytest.mark.parametrize("name", hardware_proof.SITUATIONS)
def test_situations(name):
    with sd.machine(hardware_proof.MACHINE):
        virtual = hardware_proof.diagnose(name)
    with hardware_proof.stand_in():
        shown = hardware_proof.show(name)
    assert "same" in virtual["message"]
    assert shown.diagnosis == virtual
    assert shown.healed_equal
    assert shown.statements


def test_the_stand_in_carries_no_event():
    with hardware_proof.stand_in(), pytest.raises(RuntimeError) as caught:
        situation = hardware_proof.s1()
        situation.call()
    assert not hasattr(caught.value, "samedevice_event")


def test_it_wants_a_gpu():
    import torch

    if torch.cuda.is_available():
        pytest.skip("there is one")
    done = subprocess.run(
        [sys.executable, str(SCRIPT)], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == hardware_proof.NO_GPU
    assert "torch sees no GPU" in done.stderr
