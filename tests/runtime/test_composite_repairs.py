"""Composite operators whose C++ needs memory, or a result that it forgets under a mode."""

from __future__ import annotations

import pytest
import torch

pytestmark = pytest.mark.virtual(on_mismatch="record")

GPU = "cuda:0"


@pytest.mark.parametrize("inference", [False, True])
def test_indices_of_tensor_split_are_read_on_the_host(machine, inference):
    with torch.inference_mode(inference):
        x = torch.arange(6.0, device=GPU)
        indices = torch.tensor([2, 3])
        assert [part.tolist() for part in torch.tensor_split(x, indices)] == [
            [0.0, 1.0],
            [2.0],
            [3.0, 4.0, 5.0],
        ]
        assert machine.events == []
        for place in (GPU, "cuda:1"):
            parts = x.tensor_split(indices.to(place))
            assert [part.tolist() for part in parts] == [[0.0, 1.0], [2.0], [3.0, 4.0, 5.0]]
            assert parts[0].device == torch.device(GPU)
    text = "tensor_split expected tensor_indices_or_sections to be on cpu, but it's on "
    assert {event.message for event in machine.events} <= {text + "cuda:0", text + "cuda:1"}
    assert machine.events


@pytest.mark.parametrize("shape", [(5, 5), (2, 3, 3), (0, 0), (2, 0, 0), (0, 5, 5)])
@pytest.mark.parametrize(
    "options", [{}, {"hermitian": True}, {"tol": 0.1}, {"atol": 0.1}, {"atol": 0.1, "rtol": 0.2}]
)
def test_ranks_of_matrices_are_on_their_device_and_written(machine, shape, options):
    matrix = torch.eye(shape[-1]).expand(shape).clone()
    expected = torch.linalg.matrix_rank(matrix, **options)
    found = torch.linalg.matrix_rank(matrix.to(GPU), **options)
    out = torch.empty(0, dtype=torch.long, device=GPU)
    assert torch.linalg.matrix_rank(matrix.to(GPU), **options, out=out) is out
    for own in (found, out):
        assert own.device == torch.device(GPU)
        assert own.tolist() == expected.tolist()
    assert machine.events == []
