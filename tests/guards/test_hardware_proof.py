"""The script for real hardware, with a virtual GPU in its place."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytest.importorskip("transformers")

import samedevice as sd
from evidence.engine import on_hardware


@pytest.mark.parametrize("name", on_hardware.SITUATIONS)
def test_situations(name):
    with sd.machine(on_hardware.MACHINE):
        virtual = on_hardware.diagnose(name)
    with on_hardware.stand_in():
        shown = on_hardware.show(name)
    assert "same" in virtual["message"]
    assert shown.diagnosis == virtual
    assert shown.healed == "equal"
    assert shown.statements


def test_the_stand_in_carries_no_event():
    with on_hardware.stand_in(), pytest.raises(RuntimeError) as caught:
        situation = on_hardware.s1()
        situation.call()
    assert not hasattr(caught.value, "samedevice_event")


@pytest.mark.usefixtures("warm")
def test_it_wants_a_gpu():
    import torch

    if torch.cuda.is_available():
        pytest.skip("there is one")
    done = subprocess.run(
        [sys.executable, "-m", "evidence", "hardware-proof"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == on_hardware.NO_GPU
    assert "torch sees no GPU" in done.stderr
