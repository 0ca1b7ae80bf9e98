"""torch's primitives are Python over other operators, and obey their rules."""

from __future__ import annotations

import pytest
import torch
from torch import _prims as prims
from torch import _refs as refs

from samedevice.machines import parse_machine
from samedevice.runtime import VirtualMachine


def test_primitives_take_numbers_from_the_host_as_operators_do():
    with VirtualMachine(parse_machine("2x24GB"), on_mismatch="raise") as machine:
        x, number = torch.arange(3.0, device="cuda"), torch.tensor(2.0)
        assert refs.mul(x, number).tolist() == [0.0, 2.0, 4.0]
        assert prims.sum(x, [0]).item() == 3.0
        assert prims.iota(
            3, start=0, step=1, dtype=torch.int64, device=torch.device("cuda"), requires_grad=False
        ).tolist() == [0, 1, 2]
        assert prims.device_put(x, "cpu").device == torch.device("cpu")
        assert machine.events == []
        with pytest.raises(RuntimeError, match="on the same device"):
            refs.add(x, torch.ones(3))


def test_a_mismatch_in_a_primitive_is_recorded_and_mended():
    with VirtualMachine(parse_machine("2x24GB"), on_mismatch="record") as machine:
        assert refs.add(torch.ones(3, device="cuda"), torch.ones(3)).tolist() == [2.0] * 3
    assert [event.op for event in machine.events] == ["aten.add.Tensor"]


@pytest.mark.parametrize("name", ["maximum", "max", "fmax", "minimum", "min", "fmin"])
@pytest.mark.parametrize("other", [torch.int16, torch.complex64])
def test_complex_numbers_have_no_order(name, other):
    with VirtualMachine(parse_machine("1x24GB"), on_mismatch="raise"):
        a, b = torch.ones(1, device="cuda", dtype=torch.complex64), torch.ones(1, device="cuda", dtype=other)
        for first, second in ((a, b), (b, a)):
            with pytest.raises((RuntimeError, TypeError), match="not implemented for complex tensors"):
                getattr(torch, name)(first, second)
