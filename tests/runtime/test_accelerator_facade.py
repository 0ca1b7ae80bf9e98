"""`torch.accelerator` inside a virtual machine."""

from __future__ import annotations

import inspect

import pytest
import torch

pytestmark = [pytest.mark.virtual("3x24GB"), pytest.mark.usefixtures("machine")]


def needs(name):
    return pytest.mark.skipif(not hasattr(torch.accelerator, name), reason="newer than this torch")


def test_cuda_is_the_accelerator():
    assert torch.accelerator.is_available()
    assert torch.accelerator.device_count() == 3
    assert torch.accelerator.current_accelerator() == torch.device("cuda")
    if "check_available" in inspect.signature(torch.accelerator.current_accelerator).parameters:
        assert torch.accelerator.current_accelerator(check_available=True) == torch.device("cuda")
    assert torch._C._get_accelerator() == torch.device("cuda")
    assert torch.get_device_module("cuda") is torch.get_device_module() is torch.cuda
    assert torch._utils._get_available_device_type() == "cuda"


def test_the_current_device():
    torch.accelerator.set_device_index("cuda:2")
    assert torch.accelerator.current_device_index() == torch.cuda.current_device() == 2
    torch.accelerator.set_device_index(-1)
    assert torch.cuda.current_device() == 2
    torch.accelerator.synchronize()
    with pytest.raises(ValueError, match="doesn't match"):
        torch.accelerator.set_device_index("cpu")


@needs("device_index")
def test_another_device_for_a_while():
    torch.accelerator.set_device_index("cuda:2")
    with torch.accelerator.device_index(1):
        assert torch.cuda.current_device() == 1
        with torch.accelerator.device_index(None):
            assert torch.cuda.current_device() == 1
    assert torch.cuda.current_device() == 2


def test_streams():
    stream = torch.Stream("cuda:1")
    torch.accelerator.set_stream(stream)
    assert torch.accelerator.current_device_index() == 1
    assert torch.accelerator.current_stream() == stream
    assert torch.accelerator.current_stream(0) == torch.cuda.default_stream(0)


@needs("memory_allocated")
def test_memory():
    assert torch.accelerator.memory_allocated() == 0
    x = torch.empty(256, device="cuda:1")
    assert (
        torch.accelerator.memory_allocated("cuda:1") == torch.accelerator.max_memory_allocated(1) == x.nbytes
    )
    assert torch.accelerator.memory_reserved(1) == torch.accelerator.max_memory_reserved(1) == 2 << 20
    del x
    torch.accelerator.reset_peak_memory_stats(1)
    assert torch.accelerator.max_memory_allocated(1) == 0
    torch.accelerator.empty_cache()
    assert torch.accelerator.memory_reserved(1) == 0
    torch.accelerator.reset_accumulated_memory_stats(1)


@needs("get_memory_info")
def test_free_memory():
    assert torch.accelerator.get_memory_info(1) == torch.cuda.mem_get_info(1)


@needs("get_device_capability")
def test_types():
    assert torch.bfloat16 in torch.accelerator.get_device_capability()["supported_dtypes"]
