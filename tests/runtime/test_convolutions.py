"""The operator that a convolution comes to, and what it says of devices."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch.nn import functional

from samedevice.machines import parse_machine
from samedevice.runtime import VirtualMachine
from samedevice.runtime.engine.convolutions import _told, _worker

GPU, OTHER = "cuda:0", "cuda:1"
BACKENDS = {
    "Mkldnn": "mkldnn_convolution",
    "???": "mkldnn_convolution",  # MkldnnTranspose, which has no name in Python
    "Slow2d": "_slow_conv2d_forward",
    "Slow3d": "slow_conv3d_forward",
    "SlowDilated2d": "slow_conv_dilated2d",
    "SlowDilated3d": "slow_conv_dilated3d",
    "SlowTranspose2d": "slow_conv_transpose2d",
    "SlowTranspose3d": "slow_conv_transpose3d",
    "Empty": "mul",
}
"""By the name that torch gives them on the host."""


def asked(dimensions, batch, groups, size, width, step, gap, transposed, pad, dtype):
    """Arguments of a convolution; four channels come and go."""
    weight = torch.empty((4, 4 // groups) + (size,) * dimensions, dtype=dtype)
    return {
        "input": torch.empty((batch, 4) + (width,) * dimensions, dtype=dtype),
        "weight": weight,
        "bias": None,
        "stride": [step] * dimensions,
        "padding": [2] * dimensions,
        "dilation": [gap] * dimensions,
        "transposed": transposed,
        "output_padding": [pad] * dimensions,
        "groups": groups,
    }


ALL = itertools.product((0, 1, 2, 16), (1, 2), (1, 3, 5), (6, 150), (1, 2), (1, 2), (False, True), (0, 1))
CASES = [(dimensions, *rest) for rest in ALL for dimensions in (1, 2, 3) if rest[3] == 6 or dimensions < 3]


@pytest.mark.skipif(not torch.backends.mkldnn.is_available(), reason="this torch has no oneDNN")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_on_the_host_it_is_the_one_that_torch_chooses(machine, dtype):
    different = []
    compared = 0
    for case in CASES:
        given = asked(*case, dtype)
        try:
            chosen = torch._C._select_conv_backend(*given.values(), None)
        except RuntimeError:  # such a call is refused before
            continue
        compared += 1
        if _worker(_told(given)) != BACKENDS[str(chosen).rpartition(".")[2]]:
            different.append((case, chosen))
    assert compared > len(CASES) // 2
    assert different == []


def wrapper(argument, place, others, method):
    return (
        f"Expected all tensors to be on the same device, but got {argument} is on {place}, different from "
        f"other tensors on {others} (when checking argument in method wrapper_CUDA_{method})"
    )


def types(first, second, what="weight", suffix=""):
    named = [{"cpu": "torch", "cuda": "torch.cuda"}[each] + ".FloatTensor" for each in (first, second)]
    return f"Input type ({named[0]}) and {what} type ({named[1]}) should be the same{suffix}"


MKLDNN = " or input should be a MKLDNN tensor and weight is a dense tensor"


def conv(x, *size, place=GPU, bias=None, dtype=torch.float32, transposed=False, **options):
    weight = torch.ones(size, device=place, dtype=dtype)
    name = f"conv_transpose{len(size) - 2}d" if transposed else f"conv{len(size) - 2}d"
    given = None if bias is None else torch.ones(size[0], device=bias)
    return getattr(functional, name)(x, weight, given, **options)


def host(*size):
    return torch.ones(size)


def gpu(*size):
    return torch.ones(size, device=GPU)


TEXTS = {
    "a small image": (
        lambda: conv(host(1, 3, 8, 8), 4, 3, 3, 3),
        wrapper("weight", GPU, "cpu", "__slow_conv2d_forward"),
    ),
    "a batch": (lambda: conv(host(2, 3, 8, 8), 4, 3, 3, 3), types("cpu", "cuda", suffix=MKLDNN)),
    "a large image": (lambda: conv(host(1, 3, 99, 99), 4, 3, 3, 3), types("cpu", "cuda", suffix=MKLDNN)),
    "a line": (
        lambda: conv(host(1, 3, 8), 4, 3, 3),
        wrapper("weight", GPU, "cpu", "__slow_conv2d_forward"),
    ),
    "only the bias is on a GPU": (
        lambda: conv(host(1, 4, 8, 8), 4, 4, 3, 3, place="cpu", bias=GPU),
        wrapper("bias", GPU, "cpu", "__slow_conv2d_forward"),
    ),
    "with gaps": (
        lambda: conv(host(1, 3, 8, 8), 4, 3, 3, 3, dilation=2),
        wrapper("weight", GPU, "cpu", "_slow_conv_dilated2d"),
    ),
    "transposed": (
        lambda: conv(host(1, 4, 8, 8), 4, 3, 3, 3, transposed=True),
        wrapper("weight", GPU, "cpu", "slow_conv_transpose2d"),
    ),
    "transposed in space": (
        lambda: conv(host(1, 4, 8, 8, 8), 4, 3, 3, 3, 3, transposed=True),
        wrapper("weight", GPU, "cpu", "_slow_conv_transpose3d"),
    ),
    "the weight is on the host": (
        lambda: conv(gpu(1, 3, 8, 8), 4, 3, 3, 3, place="cpu"),
        types("cuda", "cpu"),
    ),
    "the bias is on the host": (
        lambda: conv(gpu(1, 3, 8, 8), 4, 3, 3, 3, bias="cpu"),
        types("cuda", "cpu", "bias"),
    ),
    "depthwise": (
        lambda: conv(gpu(2, 4, 8, 8), 4, 1, 3, 3, place="cpu", groups=4),
        wrapper("weight", "cpu", GPU, "__conv_depthwise2d"),
    ),
    "depthwise in space": (
        lambda: conv(gpu(2, 4, 8, 8, 8), 4, 1, 3, 3, 3, place="cpu", groups=4),
        wrapper("weight", "cpu", GPU, "_conv_depthwise3d"),
    ),
    "depthwise with channels that lie together": (
        lambda: conv(
            gpu(2, 4, 8, 8).contiguous(memory_format=torch.channels_last), 4, 1, 3, 3, place="cpu", groups=4
        ),
        types("cuda", "cpu"),
    ),
    "groups that are no channels": (
        lambda: conv(gpu(2, 4, 8, 8), 4, 2, 3, 3, place="cpu", groups=2),
        types("cuda", "cpu"),
    ),
    "another GPU": (
        lambda: conv(gpu(1, 3, 8, 8), 4, 3, 3, 3, place=OTHER),
        wrapper("weight", OTHER, GPU, "_cudnn_convolution"),
    ),
    "transposed and another GPU": (
        lambda: conv(gpu(1, 4, 8, 8), 4, 3, 3, 3, place=OTHER, transposed=True),
        wrapper("weight", OTHER, GPU, "_cudnn_convolution_transpose"),
    ),
    "padded by a step": (
        lambda: conv(gpu(1, 4, 8, 8), 4, 3, 3, 3, place="cpu", transposed=True, output_padding=1, dilation=2),
        wrapper("weight", "cpu", GPU, "slow_conv_transpose2d"),
    ),
    "no image": (
        lambda: conv(host(0, 3, 8, 8), 4, 3, 3, 3),
        "Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu!",
    ),
}


@pytest.mark.parametrize("name", TEXTS)
def test_text(name):
    run, text = TEXTS[name]
    with VirtualMachine(parse_machine("2x24GB"), on_mismatch="raise"), pytest.raises(RuntimeError) as raised:
        run()
    assert str(raised.value) == text


def test_without_cudnn():
    with (
        VirtualMachine(parse_machine("1x24GB"), on_mismatch="raise"),
        torch.backends.cudnn.flags(enabled=False),
    ):
        with pytest.raises(RuntimeError) as raised:
            conv(gpu(1, 3, 8, 8), 4, 3, 3, 3, place="cpu")
    assert str(raised.value) == wrapper("weight", "cpu", GPU, "__slow_conv2d_forward")


def test_the_host_alone_computes_in_space():
    with VirtualMachine(parse_machine("1x24GB"), on_mismatch="raise") as machine:
        with pytest.raises(NotImplementedError, match="Could not run 'aten::slow_conv3d_forward'"):
            conv(host(1, 3, 8, 8, 8), 4, 3, 3, 3, 3)
        assert [event.operands[0].device for event in machine.events] == ["cpu"]
    with VirtualMachine(parse_machine("1x24GB")) as machine:
        assert conv(host(1, 3, 8, 8, 8), 4, 3, 3, 3, 3).device == torch.device(GPU)
        assert len(machine.events) == 1


def test_no_image_on_a_gpu_takes_a_weight_of_the_host():
    with VirtualMachine(parse_machine("1x24GB")) as machine:
        assert conv(gpu(0, 3, 8, 8), 4, 3, 3, 3, place="cpu").shape == (0, 4, 6, 6)
        assert machine.events == []


HALF = {
    "few channels": ((2, 16, 14, 14), 3, 1, False),
    "many channels": ((2, 32, 14, 14), 3, 1, True),
    "large steps": ((2, 32, 14, 14), 3, 2, False),
    "large steps and very many channels": ((2, 512, 14, 14), 3, 2, True),
    "large steps and one image": ((1, 32, 14, 14), 3, 2, True),
    "a narrow image": ((2, 32, 14, 6), 3, 1, False),
    "a large filter": ((2, 32, 14, 14), 7, 1, False),
}


@pytest.mark.parametrize("name", HALF)
def test_depthwise_in_half_precision_goes_to_cudnn_where_that_is_faster(machine, name):
    size, filter, step, cudnn = HALF[name]
    given = {
        **asked(2, 1, 1, 1, 1, step, 1, False, 0, torch.float16),
        "input": torch.empty(size, dtype=torch.float16, device=GPU),
        "weight": torch.empty(size[1], 1, filter, filter, dtype=torch.float16, device=GPU),
        "groups": size[1],
    }
    assert _worker(_told(given)) == ("cudnn_convolution" if cudnn else "_conv_depthwise2d")
