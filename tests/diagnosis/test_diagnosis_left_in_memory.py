"""A model whose weights a loader mapped from a file, and that nobody moved."""

from __future__ import annotations

import torch
from safetensors.torch import load_file, save_file

import samedevice as sd


def test_the_model_is_at_fault_and_not_what_it_is_given(tmp_path):
    made = torch.nn.Sequential(torch.nn.Linear(4, 4, bias=False))
    save_file(made.state_dict(), tmp_path / "model.safetensors")
    with sd.machine("2x24GB", on_mismatch="record") as machine:
        model = torch.nn.Sequential(torch.nn.Linear(4, 4, bias=False))
        model.load_state_dict(load_file(tmp_path / "model.safetensors"), assign=True)
        given = torch.randn(2, 4, device="cuda")
        model(given)
    (finding,) = machine.findings
    weight = next(each for each in finding.operands if each.role == "parameter")
    assert weight.device == "cpu"
    assert finding.cause == "module-left-on-other-device"
    assert finding.guilty == weight.name
