"""`sd.explain` of exceptions that were just caught: the failing frames name tensors and modules."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch

import samedevice as sd


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = torch.nn.Embedding(16, 8)
        self.head = torch.nn.Linear(8, 4)

    def forward(self, ids, scale):
        return self.head(self.embed(ids)) * scale


def explained(call, *, bare):
    """The finding of what `call` raises; `bare` takes away what a virtual machine left on the exception, as
    on real hardware.
    """
    try:
        call()
    except RuntimeError as error:
        if bare:
            del error.samedevice_event
        (finding,) = sd.explain(error)
        return finding
    raise AssertionError("nothing was raised")


@pytest.mark.parametrize("bare", [False, True])
def test_module_and_tensors_are_named(bare):
    with sd.machine("2x24GB"):
        model = Model().to("cuda:1")
        ids = torch.tensor([[1, 2]]).to("cuda:0")
        finding = explained(lambda: model(ids, 1), bare=bare)
    assert finding.cause == "input-not-on-embedding-device"
    assert finding.module == "embed"
    operands = {operand.name: operand for operand in finding.operands}
    assert operands["weight"].parameter == "embed.weight"
    assert (operands["weight"].device, operands["indices"].device) == ("cuda:1", "cuda:0")
    assert operands["indices"].argument == "ids"
    assert finding.guilty == "indices"
    assert finding.at.function == "forward"


@pytest.mark.parametrize("bare", [False, True])
def test_labels(bare):
    with sd.machine("2x24GB"):
        logits, labels = torch.ones(2, 3, device="cuda:1"), torch.tensor([0, 1])
        finding = explained(lambda: torch.nn.functional.cross_entropy(logits, labels), bare=bare)
    assert (finding.cause, finding.guilty) == ("loss-or-label-on-other-device", "target")
    assert {operand.name for operand in finding.operands} == {"self", "target"}


def test_a_real_error():
    """No virtual machine: torch's own exception on the host."""
    layer = torch.nn.Linear(4, 4, device="meta")
    try:
        layer(torch.ones(2, 4))
    except RuntimeError as error:
        (finding,) = sd.explain(error)
    assert finding.code == "SD102"
    assert finding.module == "Linear"
    assert ("weight", "meta") in {(operand.name, operand.device) for operand in finding.operands}
    assert finding.versions["torch"] == torch.__version__


def test_properties_of_the_script_are_not_run():
    class Trap:
        @property
        def weight(self):
            raise AssertionError("was run")

        def __getattr__(self, name):
            raise AssertionError("was run")

    def fail():
        trap = Trap()  # noqa: F841 # a local that must be left alone
        raise RuntimeError(
            "Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu!"
        )

    try:
        fail()
    except RuntimeError as error:
        (finding,) = sd.explain(error)
    assert finding.message.startswith("Expected all tensors")


def test_other_exceptions_are_no_device_errors():
    try:
        raise ZeroDivisionError("division by zero")
    except ZeroDivisionError as error:
        (finding,) = sd.explain(error, "zh")
    assert (finding.cause, finding.verdict) == ("not-a-device-error", "not-a-device-error")


def test_text_needs_no_torch():
    code = (
        "import sys, samedevice as sd\nprint(sd.explain('RuntimeError: CUDA error: invalid device "
        "ordinal')[0].cause)\ntry:\n    1 / 0\nexcept ZeroDivisionError as error:\n    "
        "sd.explain(error)\nprint('torch' in sys.modules)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={"PYTHONPATH": str(Path(__file__).parents[1] / "src")},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == ["device-ordinal-out-of-range", "False"]
