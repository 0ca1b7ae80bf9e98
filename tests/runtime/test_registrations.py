"""Kernels that the dispatcher has while machines are entered."""

from __future__ import annotations

import pytest
import torch
from torch.library import Library

from samedevice.machines import parse_machine
from samedevice.runtime import VirtualMachine
from samedevice.runtime.kernels.registrations import Registration

NAME = "samedevice_tests::twice"


@pytest.fixture(scope="module", autouse=True)
def operator():
    library = Library("samedevice_tests", "DEF")
    library.define("twice(Tensor x) -> Tensor")
    yield
    library._destroy()


def there():
    return torch._C._dispatch_has_kernel_for_dispatch_key(NAME, "CPU")


def fill(library):
    library.impl("twice", lambda x: x + x, "CPU")


def test_the_last_one_takes_the_kernels_away():
    kernels = Registration(fill, "samedevice_tests")
    for _ in range(2):
        kernels.enter()
        kernels.enter()
        assert torch.ops.samedevice_tests.twice(torch.ones(1)).item() == 2
        assert kernels.leave()
        assert there()
        assert not kernels.leave()
        assert not there()


def test_kernels_that_wait_are_made_once_and_only_inside():
    made = []
    kernels = Registration(lambda library: made.append(fill(library)), "samedevice_tests", at_once=False)
    kernels.make()
    kernels.enter()
    assert not there()
    kernels.make()
    kernels.make()
    assert there()
    assert len(made) == 1
    kernels.leave()
    assert not there()


def test_nested_machines_share_the_kernels_of_dropout():
    def kept(machine):
        mask = torch.ops.aten.dropout.default(torch.ones(8, device="cuda", requires_grad=True), 0.5, True)
        return mask.grad_fn.name()

    with VirtualMachine(parse_machine("1x24GB")) as outer:
        inside = kept(outer)
        with VirtualMachine(parse_machine("1x24GB")) as inner:
            assert kept(inner) == inside
        assert kept(outer) == inside
    assert "NativeDropout" in inside
