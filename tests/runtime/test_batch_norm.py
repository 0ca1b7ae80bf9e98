"""What torch's kernels for synchronized batch norm compute, and running statistics of batches without
values.
"""

import pytest
import torch
from torch import nn

pytestmark = [pytest.mark.virtual("1x24GB"), pytest.mark.usefixtures("machine")]


@pytest.mark.parametrize("shape", [(6, 4), (6, 4, 5), (6, 4, 3, 2), (2, 4, 3, 2, 2)])
@pytest.mark.parametrize("affine", [True, False])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_the_steps_make_a_batch_norm(shape, affine, dtype):
    generator = torch.Generator().manual_seed(2)
    x, gradient = (torch.randn(shape, generator=generator).mul(3).add(1).to(dtype) for _ in range(2))
    weight, bias = (
        (torch.randn(4, generator=generator, dtype=dtype) for _ in range(2)) if affine else (None, None)
    )
    running = [torch.zeros(4), torch.ones(4)]
    leaves = [value.clone().double().requires_grad_() for value in (x, weight, bias) if value is not None]
    want = nn.functional.batch_norm(leaves[0], None, None, *(leaves[1:] or (None, None)), training=True)
    nn.functional.batch_norm(
        x.double(), *(kept := [value.double() for value in running]), training=True, momentum=0.1
    )
    want.backward(gradient.double())

    x, gradient = x.cuda(), gradient.cuda()
    weight, bias = (None if value is None else value.cuda() for value in (weight, bias))
    running = [value.cuda() for value in running]
    parts = [torch.batch_norm_stats(part, 1e-5) for part in x.split([1, len(x) - 1])]
    counts = torch.tensor([x[:1].numel() / 4, x[1:].numel() / 4], device="cuda")
    mean, invstd = torch.batch_norm_gather_stats_with_counts(
        x,
        torch.stack([part[0] for part in parts]),
        torch.stack([part[1] for part in parts]),
        *running,
        0.1,
        1e-5,
        counts,
    )
    got = torch.batch_norm_elemt(x, weight, bias, mean, invstd, 1e-5)
    sums = torch.batch_norm_backward_reduce(gradient, x, mean, invstd, weight, True, affine, affine)
    of_x = torch.batch_norm_backward_elemt(gradient, x, mean, invstd, weight, *sums[:2], counts.int())

    exact = {torch.float64: 1e-5, torch.float32: 1e-5, torch.bfloat16: 5e-2}[dtype]
    for one, other in zip([of_x, *sums[2:]], [leaf.grad for leaf in leaves], strict=False):
        if one is not None:
            assert one.dtype == dtype and torch.allclose(one.cpu().double(), other, rtol=exact, atol=exact)
    assert got.dtype == dtype and torch.allclose(got.cpu().double(), want, rtol=exact, atol=exact)
    assert mean.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)
    for one, other in zip(running, kept, strict=True):
        assert torch.allclose(one.cpu().double(), other, rtol=exact, atol=exact)


def test_a_host_has_no_such_kernels():
    with pytest.raises(NotImplementedError, match="batch_norm_stats"):
        torch.batch_norm_stats(torch.ones(2, 3), 1e-5)


def test_what_was_not_computed_is_not_told_as_known():
    norm = nn.BatchNorm2d(4).cuda()
    norm(torch.randn(2, 4, 3, 3, device="cuda"))
    assert norm.running_mean.abs().max().item() > 0
    norm.eval()(torch.randn(64, 4, 64, 64, device="cuda"))
    assert "size=" not in repr(norm.running_mean)
    norm.train()(torch.randn(64, 4, 64, 64, device="cuda"))
    assert "size=" in repr(norm.running_mean)  # has no values
