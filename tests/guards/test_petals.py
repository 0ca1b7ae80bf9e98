"""Real Petals, where somebody asks for it: `SAMEDEVICE_PETALS=1 pytest tests/guards/test_petals.py` (three
minutes, 200 MB from PyPI).
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from evidence.peers import petals_proof


@pytest.mark.skipif(
    not os.environ.get("SAMEDEVICE_PETALS"), reason="takes minutes; SAMEDEVICE_PETALS=1 runs it"
)
def test_a_swarm_healthy_broken_and_guarded(capsys):
    status = petals_proof.main([])
    assert status == 0, capsys.readouterr().out


def test_the_proof_can_fail():
    told = (
        "Expected all tensors to be on the same device, but got tensors is on cuda:0, different from other "
        "tensors on cpu"
    )
    assert petals_proof.is_situation(f"{told} (when checking argument in method wrapper_CUDA_cat)")
    assert not petals_proof.is_situation(f"{told} (when checking argument in method wrapper_CUDA_mm)")
    assert not petals_proof.is_situation([1, 5])
    stale = {
        "device": "cpu",
        "local": "past_key_value[0]",
        "made": {"file": "/x/hivemind/utils/tensor_descr.py"},
    }
    at = {"file": "/x/petals/models/llama/block.py"}
    finding = {"cause": "cache-or-beam-state-on-wrong-device", "at": at, "operands": [stale]}
    assert petals_proof.is_cache(finding)
    assert not petals_proof.is_cache({**finding, "cause": "undetermined"})
    assert not petals_proof.is_cache(finding, made="misc.py")
    assert not petals_proof.is_cache({**finding, "operands": [{**stale, "device": "cuda:0"}]})


@pytest.mark.parametrize("background", [False, True], ids=["terminal", "background"])
def test_servers_can_be_interrupted_where_a_shell_started_the_proof(background):
    before = signal.signal(signal.SIGINT, signal.SIG_IGN if background else signal.default_int_handler)
    try:
        petals_proof.let_children_be_interrupted()
        child = [sys.executable, "-c", "import signal; print(signal.getsignal(signal.SIGINT))"]
        told = subprocess.run(child, capture_output=True, text=True, check=True).stdout
    finally:
        signal.signal(signal.SIGINT, before)
    assert "default_int_handler" in told
