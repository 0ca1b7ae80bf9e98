"""Operators whose C++ code compares devices before any kernel is reached."""

import pytest
import torch

from samedevice.machines import parse_machine
from samedevice.runtime import VirtualMachine

CASES = {
    "meshgrid": (
        lambda a, b: torch.meshgrid(a[0], b[0], indexing="ij")[0],
        "meshgrid expects all tensors to have the same device",
    ),
    "take_along_dim": (
        lambda a, b: torch.take_along_dim(a, b.long() * 0, 0),
        "Expected tensor to have cuda:0 Device, but got tensor with {} Device (while checking arguments for "
        "torch.take_along_dim():)",
    ),
    "gradient": (
        lambda a, b: torch.gradient(a, spacing=(b[0].cumsum(0), b[0].cumsum(0)))[0],
        "torch.gradient expected each tensor to be on the same device, but got devices cuda:0 and {}!",
    ),
    "stft": (
        lambda a, b: torch.stft(a.flatten(), 4, window=b.flatten()[:4], return_complex=True),
        "stft input and window must be on the same device but got self on cuda:0 and window on {}",
    ),
    "quantile": (
        lambda a, b: torch.quantile(a, b[0, 0] / 2),
        "quantile() q tensor must be on the same device as the input tensor",
    ),
    "multi_dot": (
        lambda a, b: torch.linalg.multi_dot([a, b, a]),
        "multi_dot(): all tensors must be on the same device but tensor 0 is on cuda:0 and tensor 1 on {}",
    ),
}


@pytest.mark.parametrize("other", ["cpu", "cuda:1"])
@pytest.mark.parametrize("name", CASES)
def test_refused_in_torchs_words(name, other):
    function, text = CASES[name]
    expected = function(torch.ones(4, 4), torch.ones(4, 4))
    with VirtualMachine(parse_machine("2x24GB")) as machine:
        found = function(torch.ones(4, 4, device="cuda:0"), torch.ones(4, 4, device=other))
        assert str(found.device) == "cuda:0"
        assert torch.equal(
            torch.view_as_real(found.cpu()) if found.is_complex() else found.cpu(),
            torch.view_as_real(expected) if expected.is_complex() else expected,
        )
    assert [event.message for event in machine.events] == [text.format(other)]


@pytest.mark.parametrize("name", CASES)
def test_one_device_is_fine(name):
    with VirtualMachine(parse_machine("2x24GB")) as machine:
        CASES[name][0](torch.ones(4, 4, device="cuda:1"), torch.ones(4, 4, device="cuda:1"))
        CASES[name][0](torch.ones(4, 4), torch.ones(4, 4))
    assert machine.events == []


def test_raised_when_asked_to():
    with (
        VirtualMachine(parse_machine("2x24GB"), on_mismatch="raise"),
        pytest.raises(RuntimeError, match="cpu DeviceType"),
    ):
        torch.inner(torch.ones(2, device="cuda"), torch.ones(2))


OUTS = {
    "norm": (
        lambda a, out: torch.linalg.norm(a, out=out),
        "linalg.norm: Expected result and input tensors to be on the same device, but got result on cuda:0 "
        "and input on {}",
    ),
    "cond": (
        lambda a, out: torch.linalg.cond(a, out=out),
        "linalg.cond: Expected result and input tensors to be on the same device, but got result on {} and "
        "input on cuda:0",
    ),
    "matrix_rank": (
        lambda a, out: torch.linalg.matrix_rank(a, out=out.long()),
        "torch.linalg.matrix_rank: Expected result and input tensors to be on the same device, but got "
        "result on {} and input on cuda:0",
    ),
    "quantile": (
        lambda a, out: torch.quantile(a, 0.5, out=out),
        "quantile() out tensor must be on the same device as the input tensor",
    ),
    "ndtr": (
        lambda a, out: torch.special.ndtr(a[0, 0], out=out),
        "Expected all tensors to be on the same device, but found at least two devices, cuda:0 and {}!",
    ),
    "mean": (
        lambda a, out: torch.mean(a, (0, 1), out=out),
        "Expected out tensor to have device cuda:0, but got {} instead",
    ),
}


@pytest.mark.parametrize("other", ["cpu", "cuda:1"])
@pytest.mark.parametrize("name", OUTS)
def test_a_result_elsewhere_is_refused_and_filled(name, other):
    function, text = OUTS[name]
    matrix = torch.tensor([[2.0, 1.0], [0.0, 3.0]])
    expected = function(matrix, torch.empty(()))
    with VirtualMachine(parse_machine("2x24GB")) as machine:
        found = function(matrix.cuda(), torch.empty((), device=other))
        assert str(found.device) == other
        assert torch.equal(found.cpu(), expected)
    assert [event.message for event in machine.events] == [text.format(other)]
