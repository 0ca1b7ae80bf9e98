"""Quantized tensors on a virtual GPU have values, places and kernels as on CUDA."""

from __future__ import annotations

import copy
import pickle
import re
from pathlib import Path

import pytest
import torch
import torchgen
from torch import nn

import samedevice as sd
from samedevice.errors import UnsupportedFeatureError
from samedevice.runtime.engine.quantized import _ON_CUDA

GPU, OTHER = torch.device("cuda", 0), torch.device("cuda", 1)
pytestmark = [
    pytest.mark.usefixtures("machine"),
    pytest.mark.filterwarnings("ignore:.*quantized tensor creation functions:UserWarning"),
    pytest.mark.filterwarnings("ignore:TypedStorage is deprecated:UserWarning"),
]
NUMBERS = ((1.0, 2.0, 3.0), (4.0, 5.0, 6.0))


def quantized(device=GPU, dtype=torch.quint8):
    return torch.quantize_per_tensor(torch.tensor(NUMBERS, device=device), 0.1, 5, dtype)


SAME = {
    "view": lambda q: q.view(-1),
    "transposed": lambda q: q.t(),
    "transposed and dense": lambda q: q.t().contiguous().view(-1),
    "flip": lambda q: q.flip(0, 1),
    "row": lambda q: q[1],
    "clone": lambda q: q.clone(),
    "relu": torch.relu,
    "repeat": lambda q: q.repeat(2, 1),
    "expand": lambda q: q[:1].expand(4, 3),
    "selected": lambda q: q.index_select(0, torch.tensor([1], device=q.device)),
    "dequantized": lambda q: q.dequantize(),
    "integers": lambda q: q.int_repr(),
    "copied into": lambda q: quantized(q.device).copy_(torch.ones(2, 3, device=q.device)),
    "filled": lambda q: q.clone().masked_fill_(q.dequantize() > 3, 0.5),
    "greatest": lambda q: torch.max(q, 1)[0],
    "per channel": lambda q: torch.quantize_per_channel(
        q.dequantize(),
        torch.tensor([0.1, 0.2], device=q.device),
        torch.zeros(2, device=q.device),
        0,
        torch.qint8,
    ),
    "parameter": lambda q: nn.Parameter(q, requires_grad=False),
    "deep copy": copy.deepcopy,
}


@pytest.mark.parametrize("dtype", [torch.quint8, torch.qint8, torch.qint32])
@pytest.mark.parametrize("run", SAME.values(), ids=SAME)
def test_results_are_those_of_the_host(run, dtype):
    there, here = run(quantized(GPU, dtype)), run(quantized("cpu", dtype))
    assert there.device == GPU
    assert (there.is_quantized, there.dtype, there.shape) == (here.is_quantized, here.dtype, here.shape)
    numbers = [each.dequantize() if each.is_quantized else each for each in (there, here)]
    assert numbers[0].tolist() == numbers[1].tolist()


def test_views_share_memory_and_place():
    q = quantized()
    assert q.view(-1)._base is q
    q[0].copy_(torch.zeros(3, device=GPU))
    assert q.dequantize().tolist() == [[0, 0, 0], [4, 5, 6]]
    assert q.untyped_storage().device == GPU


def test_moves_and_memory():
    before = torch.cuda.memory_allocated(OTHER)
    q = quantized()
    there = q.to(OTHER)
    assert (q.device, there.device, q.cpu().device.type) == (GPU, OTHER, "cpu")
    assert torch.cuda.memory_allocated(OTHER) - before == 512
    assert q.to(GPU) is q
    assert quantized("cpu").to(OTHER).dequantize().tolist() == [list(row) for row in NUMBERS]
    del there
    assert torch.cuda.memory_allocated(OTHER) == before


def test_scales_on_another_device_are_a_finding():
    with sd.machine("2x24GB", on_mismatch="record") as vm:
        made = torch.quantize_per_channel(
            torch.tensor(NUMBERS, device=GPU), torch.tensor([0.1, 0.2]), torch.zeros(2), 0, torch.qint8
        )
        assert made.device == GPU
    (finding,) = vm.findings
    assert {operand.device for operand in finding.operands} == {"cuda:0", "cpu"}


@pytest.mark.parametrize(
    "run", [lambda q: torch.equal(q, q), lambda q: q.max(), lambda q: q.sort(), lambda q: torch.cat([q, q])]
)
def test_what_cuda_has_no_kernel_for_raises(run):
    with pytest.raises(NotImplementedError, match="QuantizedCUDA"):
        run(quantized())


def test_what_cuda_has_from_a_library_is_refused_by_name():
    q = quantized()
    with pytest.raises(UnsupportedFeatureError, match=r"quantized\.add"):
        torch.ops.quantized.add(q, q, 0.1, 5)


def test_pickling_is_refused_by_name():
    with pytest.raises(UnsupportedFeatureError, match="quantized tensor on cuda:0"):
        pickle.dumps(quantized())


@pytest.mark.skipif(not torch.__version__.startswith("2.13."), reason="each release has its own list")
def test_the_list_of_kernels_is_that_of_torch():
    declared, name = set(), ""
    file = Path(torchgen.__file__).parent / "packaged/ATen/native/native_functions.yaml"
    for line in file.read_text("utf-8").splitlines():
        if line.startswith("- func: "):
            name = line.removeprefix("- func: ").partition("(")[0]
        elif re.match(r"\s+[\w, ]*\bQuantizedCUDA\b[\w, ]*:", line):
            declared.add(name)
    assert declared == _ON_CUDA
