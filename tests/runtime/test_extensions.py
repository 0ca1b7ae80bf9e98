"""CUDA extensions: what torch can compute runs, the rest is refused before anything is built."""

from __future__ import annotations

import pytest
import torch
from torch.utils import cpp_extension

from samedevice.errors import UnsupportedFeatureError
from samedevice.runtime.host.extensions import _multi_tensor_adam


@pytest.mark.parametrize("decoupled", [0, 1])
@pytest.mark.parametrize("corrected", [0, 1])
def test_adam_of_lists_is_adam(machine, decoupled, corrected):
    torch.manual_seed(0)
    parameters, gradients = ([torch.randn(5), torch.randn(2, 3)] for _ in range(2))
    means, squares = ([torch.zeros_like(each) for each in parameters] for _ in range(2))
    lists = [[each.cuda() for each in every] for every in (gradients, parameters, means, squares)]
    lr, first, second, epsilon, decay = 0.1, 0.9, 0.99, 1e-8, 0.01
    for step in (1, 2):
        _multi_tensor_adam(64, None, lists, lr, first, second, epsilon, step, decoupled, corrected, decay)
        for gradient, parameter, mean, square in zip(gradients, parameters, means, squares, strict=True):
            used = gradient if decoupled else gradient + decay * parameter
            mean.mul_(first).add_((1 - first) * used)
            square.mul_(second).add_((1 - second) * used * used)
            one, two = (1 - first**step, 1 - second**step) if corrected else (1.0, 1.0)
            change = (mean / one) / ((square / two).sqrt() + epsilon)
            parameter.sub_(lr * (change + decay * parameter if decoupled else change))
    for ours, theirs in zip(lists, (gradients, parameters, means, squares), strict=True):
        for mine, his in zip(ours, theirs, strict=True):
            torch.testing.assert_close(mine.cpu(), his)
    assert machine.events == []


def test_an_extension_of_cuda_is_refused_by_name(machine, tmp_path):
    source = tmp_path / "kernel.cu"
    source.write_text("broken")
    with pytest.raises(UnsupportedFeatureError, match="The CUDA extension mine is not built"):
        cpp_extension.load("mine", [str(source)])
    with pytest.raises(UnsupportedFeatureError, match="The CUDA extension mine is not built"):
        cpp_extension.load_inline("mine", "", "broken")
