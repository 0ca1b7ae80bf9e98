"""What CUDA and its libraries take of a GPU: figures with their sources, and an estimate from them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from samedevice.machines import blas_workspace, cuda_context, gpu_table, nccl_rings, parse_machine
from samedevice.machines._libraries import _rows

MiB = 1 << 20


@pytest.mark.parametrize("row", _rows()["context"], ids=lambda row: row["gpu"])
def test_what_was_measured_is_taken_and_the_estimate_is_near(row):
    gpu = next(gpu for gpu in gpu_table() if gpu.name == row["gpu"])
    assert gpu.sm_count == row["sm_count"]
    assert cuda_context(gpu) == row["bytes"]
    assert cuda_context(replace(gpu, name="another")) == pytest.approx(row["bytes"], rel=0.25)
    assert row["source"].startswith(("github.com/", "recorded on "))


def test_contexts_and_workspaces_of_generations():
    def taken(spec):
        gpu = parse_machine(f"1x{spec}").gpus[0]
        return cuda_context(gpu) // MiB, blas_workspace(gpu)

    assert taken("T4") == (124, 8519680)
    assert taken("A100-80G") == (337, 8519680)
    assert taken("H100-80G") == (526, 32 * MiB)
    assert taken("B300") == (462, 32 * MiB)


def test_rings_of_nccl_are_made_of_its_buffers():
    rows = _rows()
    buffers = {row["protocol"]: row["bytes"] for row in rows["nccl_buffer"]}
    assert buffers == {"Simple": 4 << 20, "LL": 8 * 512 * 8 * 16, "LL128": 120 * 640 * 8 * 8}
    seen = 10_485_760  # what NCCL's own log showed on H100
    assert nccl_rings() == (4 * seen, 24 * seen)
    assert all(row["source"] for name in ("nccl_buffer", "nccl_channels") for row in rows[name])
