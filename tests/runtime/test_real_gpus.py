"""A machine beside real GPUs: tensors of theirs are refused, and the process has them again afterwards."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from samedevice.errors import UnsupportedFeatureError
from samedevice.runtime.engine import refusals
from tests.virtual import machine

SOURCES = Path(__file__).parents[2] / "src"
USES = {
    "operator": lambda real, own: real + 1,
    "with another": lambda real, own: own + real,
    "in a list": lambda real, own: torch.cat([own, real]),
    "to another type": lambda real, own: real.double(),
    "copied from": lambda real, own: own.copy_(real),
    "copied to": lambda real, own: real.copy_(own),
    "read": lambda real, own: real.sum().item(),
    "as a keyword": lambda real, own: torch.add(own, 1, out=real),
}


@pytest.fixture
def real(monkeypatch):
    """A tensor that says of itself what one on a GPU would say, in a process that initialized CUDA."""
    tensor, raw_device = torch.ones(2), refusals.raw_device
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(
        refusals,
        "raw_device",
        lambda asked: torch.device("cuda:0") if asked is tensor else raw_device(asked),
    )
    return tensor


@pytest.mark.parametrize("use", USES.values(), ids=USES)
def test_a_tensor_of_a_real_gpu_is_refused(real, use):
    with machine() as vm, pytest.raises(UnsupportedFeatureError, match=r"real GPU \(cuda:0\)"):
        use(real, torch.ones(2, device="cuda:0"))
    assert vm.events == []
    assert (real + 1).tolist() == [2, 2]


def test_also_in_a_machine_inside_of_one(real):
    with machine(), machine(), pytest.raises(UnsupportedFeatureError):
        real + 1


def test_what_the_machine_made_is_taken(real):
    with machine() as vm:
        assert (torch.ones(2, device="cuda:1") + 1).tolist() == [2, 2]
        assert (torch.ones(2, device="meta") + torch.ones(2, device="meta")).is_meta
    assert vm.events == []


PROGRAM = """
import sys, torch, samedevice as sd
from samedevice.errors import UnsupportedFeatureError
if not torch.cuda.is_available():
    sys.exit(9)
torch.cuda.manual_seed(1)
started = sys.argv[1] == "started"
if started:
    real = torch.arange(1000.0, device="cuda")
    state = torch.cuda.get_rng_state()
    stream = torch.cuda.current_stream()
count, held = torch.cuda.device_count(), torch.cuda.memory_allocated()
with sd.machine("9x24GB", on_mismatch="record") as vm:
    assert torch.cuda.device_count() == 9 and not torch.cuda.is_initialized()
    layer = torch.nn.Linear(64, 64).to("cuda:8")
    x = torch.randn(8, 64, device="cuda:7", requires_grad=True)
    layer(x.to("cuda:8", non_blocking=True)).sum().backward()
    assert str(x.grad.device) == "cuda:7" and str(layer.weight.grad.device) == "cuda:8"
    torch.optim.AdamW(layer.parameters(), fused=True).step()
    assert torch.ones(4).pin_memory().is_pinned()
    torch.ones(2, device="cuda:1") + torch.ones(2)
    if started:
        try:
            real + 1
            raise SystemExit("taken")
        except UnsupportedFeatureError:
            pass
assert len(vm.findings) == 1, vm.findings
assert torch.cuda.device_count() == count and torch.cuda.is_initialized() is started
assert torch.cuda.memory_allocated() == held
if started:
    assert torch.equal(torch.cuda.get_rng_state(), state) and torch.cuda.current_stream() == stream
    assert torch.equal(real.cpu(), torch.arange(1000.0))
drawn = torch.rand(3, device="cuda")
assert torch.equal(drawn, torch.rand(3, device="cuda", generator=torch.Generator("cuda").manual_seed(1)))
weight = torch.ones(3, device="cuda", requires_grad=True)
(weight * 2).sum().backward()
assert weight.grad.tolist() == [2, 2, 2]
"""


@pytest.mark.skipif(shutil.which("nvidia-smi") is None, reason="needs a GPU")
@pytest.mark.parametrize("when", ["started", "fresh"])
def test_a_process_that_uses_a_gpu(when):
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, when],
        env={**os.environ, "PYTHONPATH": str(SOURCES)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    if done.returncode == 9:
        pytest.skip("torch finds no GPU")
    assert done.returncode == 0, done.stderr
