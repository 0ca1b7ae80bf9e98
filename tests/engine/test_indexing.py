"""Indexing on a virtual GPU beside plain torch: masks, their words and their warnings."""

from __future__ import annotations

import warnings

import pytest
import torch

pytestmark = pytest.mark.virtual("2xA100-80G", finds_nothing=True)


@pytest.mark.parametrize("size", [(1,), (6,), (4, 4), (5, 3)])
@pytest.mark.parametrize("dtype", [torch.bool, torch.uint8])
def test_a_mask_that_does_not_fit_is_refused_in_torchs_words(machine, size, dtype):
    mask = torch.zeros(size, dtype=dtype)
    told = []
    for device in ("cpu", "cuda"):
        with warnings.catch_warnings(), pytest.raises(IndexError) as refused:
            warnings.simplefilter("ignore")
            torch.ones(5, 4, 3, device=device)[mask.to(device)]
        told.append(str(refused.value))
    assert told[0] == told[1]


def test_a_mask_after_another_index_is_compared_with_the_dimensions_that_it_covers(machine):
    x = torch.arange(24).reshape(2, 3, 4)
    mask = torch.tensor([[True, False, True, True]] * 3)
    assert x.cuda()[:, mask.cuda()].tolist() == x[:, mask].tolist()
    with pytest.raises(
        IndexError, match=r"mask \[3, 4\] at index 0 .* indexed tensor \[2, 3, 4\] at index 0"
    ):
        x.cuda()[mask.cuda()]


def test_bytes_as_a_mask_warn_once_a_use_as_torch_does(machine):
    x, mask = torch.arange(3.0, device="cuda"), torch.tensor([1, 0, 1], dtype=torch.uint8, device="cuda")
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        assert x[mask].tolist() == [0.0, 2.0]
    assert ["torch.uint8 is now deprecated" in str(each.message) for each in seen] == [True]
    assert seen[0].filename == __file__
