"""Every row of the GPU table is sane, and each name means one row."""

from __future__ import annotations

import re
from collections import Counter

import pytest

from samedevice.machines import Gpu, gpu_table, parse_machine
from samedevice.machines._lookup import find_gpus, squash
from samedevice.machines._spec import _COUNTED

CAPABILITIES = {
    (3, 7),
    (5, 2),
    (6, 0),
    (6, 1),
    (7, 0),
    (7, 5),
    (8, 0),
    (8, 6),
    (8, 9),
    (9, 0),
    (10, 0),
    (10, 3),
    (12, 0),
}
EVERY_ROW = pytest.mark.parametrize("gpu", gpu_table(), ids=lambda gpu: gpu.key)


def test_the_table_is_as_large_as_promised():
    assert len(gpu_table()) >= 90


def test_keys_and_aliases_name_one_row_each():
    names = Counter(squash(name) for gpu in gpu_table() for name in (gpu.key, *gpu.aliases))
    assert [name for name, uses in names.items() if uses > 1] == []


def test_one_default_form_for_each_model_and_size():
    defaults = Counter((gpu.model, gpu.memory_gb) for gpu in gpu_table() if gpu.default)
    assert set(defaults.values()) == {1}
    assert {(gpu.model, gpu.memory_gb) for gpu in gpu_table()} == set(defaults)


@EVERY_ROW
def test_row_is_sane(gpu: Gpu):
    assert gpu.capability in CAPABILITIES
    assert 5 <= gpu.sm_count <= 192
    assert gpu.bandwidth_gbps is None or 100 <= gpu.bandwidth_gbps <= 8000
    assert re.match(r"(NVIDIA|Tesla|Quadro) ", gpu.name)
    assert "memory: nvidia-smi" in gpu.source or "driver figure not seen" in gpu.source
    assert "SMs" in gpu.source
    assert ("bandwidth" in gpu.source) is (gpu.bandwidth_gbps is not None)
    assert "from memory" not in gpu.source and "assumed" not in gpu.source


@EVERY_ROW
def test_memory_is_near_the_marketed_size(gpu: Gpu):
    assert abs(gpu.memory_mib / (gpu.memory_gb * 1024) - 1) < 0.07
    size = re.search(r"-(\d+)G\b", gpu.key)
    assert size is None or int(size[1]) == gpu.memory_gb


@EVERY_ROW
def test_torch_sees_at_most_what_the_driver_has(gpu: Gpu):
    assert 0.95 * gpu.memory_mib < gpu.total_memory / 2**20 <= gpu.memory_mib


@EVERY_ROW
def test_links_are_those_of_the_form(gpu: Gpu):
    assert gpu.pcie.kind == "PCIe"
    assert gpu.link.kind == ("NVLink" if gpu.form.startswith("SXM") or re.match("G[BH]", gpu.key) else "PCIe")
    if gpu.bridge is not None:
        assert gpu.bridge.kind == "NVLink"
        assert gpu.link.kind == "PCIe"


@EVERY_ROW
def test_row_is_found_by_its_names(gpu: Gpu):
    for name in (gpu.key, *gpu.aliases):
        assert parse_machine(name).gpus == (gpu,)
        assert parse_machine(f"2x{name}").gpus == (gpu, gpu)
    assert gpu in find_gpus(gpu.name)
    assert gpu in find_gpus(f"{gpu.model}-{gpu.memory_gb}GB-{gpu.form}")


@EVERY_ROW
def test_no_name_reads_as_a_count(gpu: Gpu):
    for name in (gpu.key, gpu.name, *gpu.aliases):
        assert _COUNTED.fullmatch(name) is None
