"""Where a script asks for deterministic algorithms, the machine refuses what CUDA refuses and warns where
CUDA warns.
"""

from __future__ import annotations

import warnings

import pytest
import torch
from torch.nn import functional as F

pytestmark = [pytest.mark.virtual("1x24GB", finds_nothing=True), pytest.mark.usefixtures("machine")]


@pytest.fixture(autouse=True)
def as_it_was(machine):
    yield
    torch.use_deterministic_algorithms(False)


def backward(forward):
    """A function of a device that differentiates `forward`; the forward runs before anything is asked for."""

    def make(device):
        result = forward(lambda *size: torch.rand(*size, device=device, requires_grad=True))
        return lambda: result.sum().backward(retain_graph=True)

    return make


def there(floats, integers):
    return floats, integers.to(floats.device)


REFUSED = {
    "adaptive_avg_pool2d_backward_cuda": backward(lambda x: F.adaptive_avg_pool2d(x(1, 2, 5, 5), 3)),
    "adaptive_avg_pool3d_backward_cuda": backward(lambda x: F.adaptive_avg_pool3d(x(1, 2, 5, 5, 5), 3)),
    "adaptive_max_pool2d_backward_cuda": backward(lambda x: F.adaptive_max_pool2d(x(1, 2, 5, 5), 3)),
    "avg_pool3d_backward_cuda": backward(lambda x: F.avg_pool3d(x(1, 2, 4, 4, 4), 2)),
    "max_pool3d_with_indices_backward_cuda": backward(lambda x: F.max_pool3d(x(1, 2, 4, 4, 4), 2)),
    "upsample_bicubic2d_backward_out_cuda": backward(
        lambda x: F.interpolate(x(1, 2, 4, 4), scale_factor=2, mode="bicubic")
    ),
    "reflection_pad2d_backward_cuda": backward(lambda x: F.pad(x(1, 2, 4, 4), (1, 1, 1, 1), mode="reflect")),
    "replication_pad2d_backward_cuda": backward(
        lambda x: F.pad(x(1, 2, 4, 4), (1, 1, 1, 1), mode="replicate")
    ),
    "grid_sampler_2d_backward_cuda": backward(
        lambda x: F.grid_sample(x(1, 1, 4, 4), x(1, 2, 2, 2), align_corners=False)
    ),
    "ctc_loss_backward_gpu": backward(
        lambda x: F.ctc_loss(*there(x(5, 1, 4).log_softmax(2), torch.ones(1, 2, dtype=torch.long)), [5], [2])
    ),
    "embedding_bag_backward_cuda_max": backward(
        lambda x: F.embedding_bag(*reversed(there(x(4, 3), torch.zeros(1, 2, dtype=torch.long))), mode="max")
    ),
    "nll_loss2d_forward_out_cuda_template": lambda device: (
        lambda: F.nll_loss(
            torch.rand(1, 3, 2, 2, device=device), torch.zeros(1, 2, 2, dtype=torch.long, device=device)
        )
    ),
    "put_": lambda device: (
        lambda: torch.zeros(3, device=device).put_(
            torch.tensor([0], device=device), torch.ones(1, device=device), accumulate=True
        )
    ),
    "_histc_cuda with floating point input": lambda device: lambda: torch.rand(3, device=device).histc(),
    "_bincount_cuda": lambda device: (
        lambda: torch.tensor([0, 1], device=device).bincount(torch.ones(2, device=device))
    ),
    "median CUDA with indices output": lambda device: lambda: torch.rand(3, 3, device=device).median(0),
    "scatter_reduce_cuda_prod_": lambda device: (
        lambda: torch.rand(3, device=device).scatter_reduce_(
            0, torch.zeros(1, dtype=torch.long, device=device), torch.ones(1, device=device), "prod"
        )
    ),
}
ALLOWED = {
    "bincount without weights": lambda device: torch.tensor([0, 1], device=device).bincount(),
    "median of all": lambda device: torch.rand(3, device=device).median(),
    "cumsum": lambda device: torch.rand(3, device=device).cumsum(0),
    "kthvalue": lambda device: torch.rand(3, device=device).kthvalue(1),
    "sum of scattered": lambda device: torch.rand(3, device=device).scatter_reduce_(
        0, torch.zeros(1, dtype=torch.long, device=device), torch.ones(1, device=device), "sum"
    ),
    "mean of a bag": lambda device: F.embedding_bag(
        torch.zeros(1, 2, dtype=torch.long, device=device), torch.rand(4, 3, device=device)
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cuda_cannot_do_deterministically_is_refused_on_a_gpu_only(name):
    on_gpu, on_host = REFUSED[name]("cuda"), REFUSED[name]("cpu")
    on_gpu()
    torch.use_deterministic_algorithms(True)
    with pytest.raises(
        RuntimeError,
        match=f"^{name} does not have a deterministic implementation, but you set .* You can also file",
    ):
        on_gpu()
    on_host()


@pytest.mark.parametrize("name", REFUSED)
def test_a_script_that_wants_warnings_is_warned_and_goes_on(name):
    on_gpu = REFUSED[name]("cuda")
    torch.use_deterministic_algorithms(True, warn_only=True)
    with pytest.warns(UserWarning, match=f"^{name} does not have .* warn_only=True.'. You can file an issue"):
        on_gpu()


@pytest.mark.parametrize("name", ALLOWED)
def test_what_cuda_does_deterministically_is_left_alone(name):
    torch.use_deterministic_algorithms(True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ALLOWED[name]("cuda")


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.complex64, torch.int16, torch.bool])
def test_memory_that_grows_is_marked_as_torch_marks_it(dtype):
    torch.use_deterministic_algorithms(True)
    for size in ((5,), (3, 3)):
        plain, virtual = torch.ones(2, dtype=dtype), torch.ones(2, dtype=dtype, device="cuda")
        assert torch.equal(
            torch.nan_to_num(virtual.resize_(size).cpu()), torch.nan_to_num(plain.resize_(size))
        )
