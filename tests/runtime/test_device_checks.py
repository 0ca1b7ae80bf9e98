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
    "grid_sample": (
        lambda a, b: torch.nn.functional.grid_sample(
            a[None, None], b[None, :, :2, None].expand(-1, -1, -1, 2), align_corners=False
        ),
        "grid_sampler(): expected input and grid to be on same device, but input is on cuda:0 and grid is "
        "on {}",
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
