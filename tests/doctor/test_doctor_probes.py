"""The probes on this computer: commands that are missing, hang, or talk nonsense; NVML by a stub."""

from __future__ import annotations

import os
import sys
import time

import psutil
import pytest

from samedevice.doctor import Facts, ThisHost, examine
from samedevice.doctor.probes import driver, read_facts

XML = """<?xml version="1.0" ?>
<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v12.dtd">
<nvidia_smi_log>
	<driver_version>535.183.01</driver_version>
	<cuda_version>12.2</cuda_version>
	<gpu id="00000000:01:00.0">
		<product_name>Tesla T4</product_name>
		<uuid>GPU-1</uuid>
		<fb_memory_usage><total>15360 MiB</total><used>N/A</used></fb_memory_usage>
		<ecc_errors><volatile><double_bit><total>9</total></double_bit></volatile></ecc_errors>
	</gpu>
</nvidia_smi_log>
"""
STUB = """
class NVMLError(Exception):
    pass

class NVMLError_LibraryNotFound(NVMLError):
    pass

class Memory:
    total, used = 24564 << 20, 20000 << 20

class Process:
    pid, usedGpuMemory = 1, 19000 << 20

class Bus:
    busId = b"00000000:01:00.0"

def nvmlInit(): {init}
def nvmlSystemGetDriverVersion(): return b"470.256.02"
def nvmlSystemGetCudaDriverVersion(): return 11040
def nvmlDeviceGetCount(): return 2
def nvmlDeviceGetHandleByIndex(index): return index
def nvmlDeviceGetName(handle): return "NVIDIA GeForce RTX 3090"
def nvmlDeviceGetUUID(handle): return f"GPU-{{handle}}"
def nvmlDeviceGetMemoryInfo(handle): return Memory
def nvmlDeviceGetPciInfo(handle): return Bus
def nvmlDeviceGetCudaComputeCapability(handle): return (8, 6)
def nvmlDeviceGetMigMode(handle): raise NVMLError("Not Supported")
def nvmlDeviceGetComputeMode(handle): return 0
def nvmlDeviceGetComputeRunningProcesses(handle): return [Process]
def nvmlDeviceGetTopologyCommonAncestor(one, other): return 30
def nvmlDeviceGetP2PStatus(one, other, index): return 1 if index == 0 else 5
"""


@pytest.fixture
def commands(tmp_path, monkeypatch):
    """A folder of commands, the only one that is searched."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)

    def write(text):
        path = folder / "nvidia-smi"
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)

    return write


@pytest.fixture
def stub(tmp_path, monkeypatch):
    """An NVML that answers for two GPUs."""

    def write(init="pass"):
        (tmp_path / "pynvml.py").write_text(STUB.format(init=init))
        monkeypatch.setenv("PYTHONPATH", str(tmp_path))

    return write


def test_a_command_that_hangs_is_ended_with_its_children_and_told(commands, monkeypatch):
    monkeypatch.setattr(driver, "_SECONDS", 0.5)
    commands(f'exec {sys.executable} -c \'import subprocess; subprocess.run(["/bin/sleep", "77.7"])\'')
    started = time.monotonic()
    facts = driver.read_driver(ThisHost(), Facts())
    assert time.monotonic() - started < 20
    assert [finding.code for finding in examine(facts).findings] == ["SD317"]
    time.sleep(0.2)
    left = [each.info["cmdline"] for each in psutil.process_iter(["cmdline"]) if each.info["cmdline"]]
    assert not any("77.7" in words for words in left)


@pytest.mark.parametrize(
    "text", ["echo hello", "echo '<a/>'", "echo '<!DOCTYPE x [<!ENTITY e \"e\">]><x>&e;</x>'"]
)
def test_what_no_driver_says_is_no_fact(commands, text):
    commands(text)
    facts = driver.read_driver(ThisHost(), Facts())
    assert facts.gpus is None
    assert "driver" in [each.topic for each in facts.unread]


def test_fields_that_a_driver_does_not_have(commands):
    commands(f"case \"$1\" in -q) /bin/cat <<'END'\n{XML}END\n;; *) exit 2;; esac")
    (gpu,) = driver.read_driver(ThisHost(), Facts()).gpus
    assert (gpu.name, gpu.memory_mib, gpu.used_mib, gpu.mig) == ("Tesla T4", 15360, None, False)
    assert gpu.capability == (7, 5)  # from the table of products: this driver does not tell it
    assert gpu.uncorrectable == 9  # as boards before Ampere name them


def test_nvml_answers_where_nvidia_smi_is_missing(commands, stub):
    stub()
    facts = driver.read_driver(ThisHost(), Facts())
    assert (facts.driver.version, facts.driver.cuda) == ("470.256.02", "11.4")
    assert [gpu.capability for gpu in facts.gpus] == [(8, 6), (8, 6)]
    assert facts.links == {(0, 1): "PHB", (1, 0): "PHB"}
    assert facts.peers == {(0, 1): "CNS", (1, 0): "CNS"}
    assert [finding.code for finding in examine(facts).findings] == ["SD313", "SD313"]


def test_an_nvml_that_refuses_is_a_verdict(commands, stub):
    stub('raise NVMLError("Driver/library version mismatch")')
    facts = driver.read_driver(ThisHost(), Facts())
    assert [finding.code for finding in examine(facts).findings] == ["SD317"]


def test_without_a_driver_nothing_is_claimed(commands, stub, tmp_path):
    stub('raise NVMLError_LibraryNotFound("not found")')
    facts = driver.read_driver(ThisHost(), Facts())
    assert facts.driver is None
    assert facts.gpus is None
    assert {each.topic for each in facts.unread} == {"driver", "gpus", "links", "peers"}


def test_this_computer_is_examined_whole(tmp_path):
    (tmp_path / "train.py").write_text("import torch\n")
    facts = read_facts(ThisHost(), str(tmp_path))
    assert facts.project.files == 1
    assert facts.torch.version.startswith(facts.package("torch").version.partition("+")[0])
    assert facts.variables["PATH"] == os.environ["PATH"]
    assert all(finding.cure is not None for finding in examine(facts).findings)
