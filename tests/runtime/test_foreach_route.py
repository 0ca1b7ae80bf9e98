"""A profile names the kernel of a foreach operator exactly where CUDA has one for all tensors."""

from __future__ import annotations

import math

import pytest
import torch
from torch.profiler import profile

pytestmark = pytest.mark.usefixtures("machine")


def _named(run):
    with profile() as taken:
        run()
    return any("multi_tensor_apply_kernel" in event.key for event in taken.key_averages())


def _tensors(dtype=torch.float32, device="cuda:0", shape=(2, 3)):
    return [torch.ones(shape, dtype=dtype, device=device) for _ in range(3)]


CASES = {
    "a number": (lambda: torch._foreach_add(_tensors(), 1), True),
    "in place": (lambda: torch._foreach_add_(_tensors(), _tensors(), alpha=2), True),
    "integers are added": (lambda: torch._foreach_add(_tensors(torch.int64), 1), True),
    "integers become floats": (lambda: torch._foreach_add(_tensors(torch.int64), 1.5), False),
    "integers have no such kernel": (lambda: torch._foreach_sqrt(_tensors(torch.int64)), False),
    "a number for each": (lambda: torch._foreach_mul(_tensors(), [1.0, 2.0, 3.0]), True),
    "one of them is complex": (lambda: torch._foreach_mul(_tensors(), [1.0, 2j, 3.0]), False),
    "two types": (lambda: torch._foreach_add(_tensors(), _tensors(torch.float64)), False),
    "a copy converts": (lambda: torch._foreach_copy_(_tensors(), _tensors(torch.float64)), True),
    "other strides": (
        lambda: torch._foreach_mul(_tensors(), [t.t() for t in _tensors(shape=(3, 2))]),
        False,
    ),
    "gaps": (lambda: torch._foreach_abs([t[:, ::2] for t in _tensors()]), False),
    "the host": (lambda: torch._foreach_add(_tensors(device="cpu"), 1), False),
    "nothing to do": (lambda: torch._foreach_add(_tensors(shape=(0,)), 1), False),
    "two GPUs": (lambda: torch._foreach_neg([*_tensors(), *_tensors(device="cuda:1")]), False),
    "absolute of complex": (lambda: torch._foreach_abs(_tensors(torch.complex64)), False),
    "the largest": (lambda: torch._foreach_norm(_tensors(), math.inf), True),
    "another norm": (lambda: torch._foreach_norm(_tensors(), 3), False),
    "a number on the GPU": (lambda: torch._foreach_mul(_tensors(), torch.ones((), device="cuda:0")), True),
    "a number on the host": (lambda: torch._foreach_div(_tensors(), torch.tensor(2.0)), True),
    "another operator": (lambda: torch.add(*_tensors()[:2]), False),
}
if hasattr(torch, "_foreach_mm"):  # newer than some releases
    CASES["products of matrices"] = (
        lambda: torch._foreach_mm(_tensors(shape=(2, 2)), _tensors(shape=(2, 2))),
        False,
    )


@pytest.mark.parametrize("name", CASES)
def test_the_kernel_is_named_where_it_runs(name):
    run, expected = CASES[name]
    assert _named(run) is expected


def test_a_fast_optimizer_is_seen():
    parameter = torch.nn.Parameter(torch.ones(3, device="cuda:0"))
    parameter.grad = torch.ones_like(parameter)
    assert _named(torch.optim.AdamW([parameter], foreach=True).step)
    assert not _named(torch.optim.AdamW([parameter], foreach=False).step)
