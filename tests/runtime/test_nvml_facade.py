"""`pynvml` inside a virtual machine."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import os

import pytest
import torch

from samedevice.errors import UnsupportedFeatureError
from samedevice.machines import parse_machine
from samedevice.runtime import VirtualMachine


@pytest.fixture
def nvml(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    with VirtualMachine(parse_machine("2xA100-80G+1xRTX4090"), on_mismatch="raise"):
        import pynvml

        pynvml.nvmlInit()
        yield pynvml


def test_every_physical_gpu_is_seen(nvml):
    assert torch.cuda.device_count() == 1
    assert nvml.nvmlDeviceGetCount() == 3
    names = [nvml.nvmlDeviceGetName(nvml.nvmlDeviceGetHandleByIndex(index)) for index in range(3)]
    assert "A100" in names[0]
    assert "4090" in names[2]
    assert nvml.nvmlDeviceGetCudaComputeCapability(nvml.nvmlDeviceGetHandleByIndex(2)) == (8, 9)
    assert nvml.nvmlDeviceGetArchitecture(nvml.nvmlDeviceGetHandleByIndex(2)) == nvml.NVML_DEVICE_ARCH_ADA
    with pytest.raises(nvml.NVMLError_InvalidArgument, match="Invalid Argument"):
        nvml.nvmlDeviceGetHandleByIndex(3)


def test_handles_by_other_names(nvml):
    handle = nvml.nvmlDeviceGetHandleByIndex(2)
    uuid = nvml.nvmlDeviceGetUUID(handle)
    assert uuid.startswith("GPU-")
    assert nvml.nvmlDeviceGetHandleByUUID(uuid) == nvml.nvmlDeviceGetHandleByUUID(uuid.encode()) == handle
    assert nvml.nvmlDeviceGetHandleByPciBusId(nvml.nvmlDeviceGetPciInfo(handle).busId) == handle
    assert nvml.nvmlDeviceGetIndex(handle) == 2
    with pytest.raises(nvml.NVMLError_NotFound):
        nvml.nvmlDeviceGetHandleByUUID("GPU-0")


def test_memory_is_the_visible_devices_reservation(nvml):
    x = torch.empty(1 << 20, device="cuda")
    used = [nvml.nvmlDeviceGetMemoryInfo(nvml.nvmlDeviceGetHandleByIndex(index)).used for index in range(3)]
    assert used == [0, 20 << 20, 0]
    handle = nvml.nvmlDeviceGetHandleByIndex(1)
    info = nvml.nvmlDeviceGetMemoryInfo(handle)
    assert info.free + info.used == info.total == torch.cuda.get_device_properties(0).total_memory
    (process,) = nvml.nvmlDeviceGetComputeRunningProcesses(handle)
    assert (process.pid, process.usedGpuMemory) == (os.getpid(), 20 << 20)
    assert torch.cuda.list_gpu_processes().splitlines()[1].split()[1] == str(os.getpid())
    assert torch.cuda.device_memory_used() == 20 << 20
    assert x.numel()


def test_nothing_runs(nvml):
    assert nvml.nvmlDeviceGetUtilizationRates(nvml.nvmlDeviceGetHandleByIndex(0)).gpu == 0
    assert torch.cuda.utilization() == torch.cuda.memory_usage() == 0
    with pytest.raises(nvml.NVMLError, match="Not Supported") as caught:
        nvml.nvmlDeviceGetTemperature(nvml.nvmlDeviceGetHandleByIndex(0), nvml.NVML_TEMPERATURE_GPU)
    assert caught.value.value == nvml.NVML_ERROR_NOT_SUPPORTED


def test_links(nvml):
    first, second, other = (nvml.nvmlDeviceGetHandleByIndex(index) for index in range(3))
    assert (
        nvml.nvmlDeviceGetP2PStatus(first, second, nvml.NVML_P2P_CAPS_INDEX_NVLINK) == nvml.NVML_P2P_STATUS_OK
    )
    assert (
        nvml.nvmlDeviceGetP2PStatus(first, second, nvml.NVML_P2P_CAPS_INDEX_READ) == nvml.NVML_P2P_STATUS_OK
    )
    assert (
        nvml.nvmlDeviceGetP2PStatus(first, other, nvml.NVML_P2P_CAPS_INDEX_READ)
        == nvml.NVML_P2P_STATUS_NOT_SUPPORTED
    )
    assert nvml.nvmlDeviceGetNvLinkState(first, 0) == nvml.NVML_FEATURE_ENABLED
    with pytest.raises(nvml.NVMLError_NotSupported):
        nvml.nvmlDeviceGetNvLinkState(other, 0)


def test_versions(nvml):
    driver, cuda = {"12": ("570.124.06", 12080), "13": ("580.65.06", 13000)}[torch.version.cuda[:2]]
    assert nvml.nvmlSystemGetDriverVersion() == driver
    assert nvml.nvmlSystemGetCudaDriverVersion_v2() == nvml.nvmlSystemGetCudaDriverVersion() == cuda


def test_errors_choose_their_class(nvml):
    assert type(nvml.NVMLError(3)) is nvml.NVMLError_NotSupported
    assert nvml.NVMLError(3).value == 3
    assert str(nvml.NVMLError(12345)) == "Unknown Error"
    assert nvml.nvmlErrorString(9) == "Driver Not Loaded"


def test_what_is_missing_says_so(nvml):
    with pytest.raises(UnsupportedFeatureError, match="nvmlDeviceGetVgpuMetadata"):
        nvml.nvmlDeviceGetVgpuMetadata  # noqa: B018  # the look-up is what is refused
    for name in ("__path__", "__wrapped__", "NVML_NO_SUCH_CONSTANT"):
        assert not hasattr(nvml, name)
    assert inspect.ismodule(nvml)
    assert inspect.unwrap(nvml.nvmlInit)
    assert importlib.import_module("pynvml") is nvml


def test_libraries_that_look_for_the_package_find_it():
    with VirtualMachine(parse_machine("1x24GB")):
        assert importlib.util.find_spec("pynvml") is not None
