"""What CUDA has no kernel for, and arguments that the CPU would not take."""

import pytest
import torch

from samedevice.device_rules import only_on_cpu
from samedevice.machines import parse_machine
from samedevice.runtime import VirtualMachine

NO_KERNEL = {
    "histogram": (lambda x: torch.histogram(x, 5), "aten::histogram.bin_ct"),
    "histogram out": (lambda x: torch.histogram(x, 5, out=(x[0, 0], x[0])), "aten::histogram.bin_ct_out"),
    "histogram of two devices": (
        lambda x: torch.histogram(x, torch.arange(4.0)),
        "aten::histogram.bins_tensor",
    ),
    "histogramdd": (lambda x: torch.histogramdd(x, 5), "aten::_histogramdd_bin_edges"),
    "spdiags": (
        lambda x: torch.sparse.spdiags(x[:1], torch.zeros(1, dtype=torch.long, device="cuda"), (3, 3)),
        "aten::_spdiags",
    ),
    "mkldnn": (lambda x: x.to_mkldnn(), "aten::to_mkldnn"),
}


@pytest.mark.parametrize("size", [3, 1024])
@pytest.mark.parametrize("name", NO_KERNEL)
def test_refused_for_want_of_a_kernel(name, size):
    function, op = NO_KERNEL[name]
    with VirtualMachine(parse_machine("2x24GB")) as machine:
        with pytest.raises(
            NotImplementedError, match=f"Could not run '{op}' with arguments from the 'CUDA' backend"
        ):
            function(torch.ones(size, size, device="cuda"))
        torch.histogram(torch.ones(3), 5)
        torch.histc(torch.ones(3, device="cuda"), 5)
    assert machine.events == []


def test_the_declarations_tell():
    found = {
        op: only_on_cpu(f"aten.{op}")
        for op in ("histogram.bin_ct", "_histogramdd_bin_edges.out", "histc.default", "add.Tensor", "mul.out")
    }
    assert found == {
        "histogram.bin_ct": True,
        "_histogramdd_bin_edges.out": True,
        "histc.default": False,
        "add.Tensor": False,
        "mul.out": False,
    }
    assert not only_on_cpu("torchvision.nms.default")


@pytest.mark.parametrize("size", [3, 1024])
def test_least_squares_have_one_driver(size):
    with VirtualMachine(parse_machine("2x24GB")):
        matrix = torch.eye(size, device="cuda") * 2
        for driver in (None, "gels", "GELS"):
            solution = torch.linalg.lstsq(matrix, matrix, driver=driver).solution
            assert solution.shape == matrix.shape
        with pytest.raises(RuntimeError, match="`driver` other than `gels` is not supported on CUDA"):
            torch.linalg.lstsq(matrix, matrix, driver="gelsd")


def test_what_only_cuda_takes():
    with VirtualMachine(parse_machine("2x24GB")):
        matrix = torch.eye(3, device="cuda") * 2
        assert torch.linalg.svd(matrix, driver="gesvd").S.tolist() == [2.0, 2.0, 2.0]
        assert torch.linalg.svdvals(matrix, driver="gesvdj").tolist() == [2.0, 2.0, 2.0]
        assert torch.linalg.lu_factor(matrix, pivot=False).LU.shape == (3, 3)
