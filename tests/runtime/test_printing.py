"""The text of a virtual tensor is the one that torch writes of a tensor on a GPU."""

from __future__ import annotations

import pytest
import torch

from samedevice.runtime.state.memory import VALUE_LIMIT

pytestmark = [pytest.mark.virtual(finds_nothing=True), pytest.mark.usefixtures("machine")]


class Subclass(torch.Tensor):
    pass


@pytest.mark.parametrize(
    "make",
    [
        lambda x: x,
        lambda x: x.to(torch.int8),
        lambda x: x * 1j,
        lambda x: (x * 1j).conj(),
        lambda x: x[:, :0],
        lambda x: x[1:, ::2].t(),
        lambda x: x.expand(40, 3, 4).reshape(40, 12) * 1e-5,
        torch.nn.Parameter,
        lambda x: torch.nn.Parameter(x) * 2,
        lambda x: x.clone().requires_grad_(),
        lambda x: x.as_subclass(Subclass),
        lambda x: x.new_zeros(2000),
    ],
)
def test_the_text_is_torchs_with_the_device(make):
    x = torch.arange(12.0).reshape(3, 4)
    plain, virtual = make(x), make(x.cuda())
    text = str(virtual)
    assert text.count("device='cuda:0'") == 1
    assert "".join(text.replace("device='cuda:0'", "").split()).replace(",,", ",").replace(
        ",)", ")"
    ) == "".join(str(plain).split())
    assert repr(virtual) == text


def test_what_nobody_knows_is_dots():
    large = torch.zeros(VALUE_LIMIT, device="cuda:1", dtype=torch.float16)
    assert repr(large) == f"tensor(..., size=({VALUE_LIMIT},), device='cuda:1', dtype=torch.float16)"
    assert repr(torch.nn.Parameter(large)).startswith("Parameter containing:\ntensor(..., size=(")


def test_numbers_are_formatted_as_torch_formats_them():
    x = torch.tensor(2.5, device="cuda")
    assert f"{x:.2f}" == "2.50"
    with pytest.raises(TypeError, match="unsupported format string"):
        format(x.view(1), ".2f")
