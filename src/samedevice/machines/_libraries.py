"""What libraries take of a GPU's memory beside tensors, from `libraries.toml`."""

from __future__ import annotations

from functools import cache
from typing import Any

from samedevice.machines._gpu import Gpu

_NCCL_GRAIN = 2 << 20
"""Bytes: CUDA hands out memory for mapped allocations in multiples of it."""


def blas_workspace(gpu: Gpu) -> int:
    """Bytes of cuBLAS's workspace, which torch allocates at the first matrix product of a stream.

    >>> from samedevice.machines import parse_machine
    >>> blas_workspace(parse_machine("1xA100-80G").gpus[0])
    8519680
    """
    return next((size for since, size in _workspaces() if gpu.capability >= since), 0)


def cuda_context(gpu: Gpu) -> int:
    """Bytes of an empty CUDA context: as measured, or estimated from those of others by its multiprocessors.

    >>> from samedevice.machines import parse_machine
    >>> [cuda_context(parse_machine(f"1x{key}-80G").gpus[0]) >> 20 for key in ("H100", "A100")]
    [526, 337]
    """
    measured = next((int(row["bytes"]) for row in _rows()["context"] if row["gpu"] == gpu.name), None)
    return round(_bytes_of_multiprocessor() * gpu.sm_count) if measured is None else measured


def nccl_rings() -> tuple[int, int]:
    """The fewest and the most bytes that the rings of one NCCL communicator take on each GPU.

    Calculated from NCCL's buffers and the channels that others saw; a machine's links decide which of them it
    gets. Trees, sends and other algorithms take more.

    >>> [size >> 20 for size in nccl_rings()]
    [40, 240]
    """
    rows = _rows()
    buffers = sum(int(row["bytes"]) for row in rows["nccl_buffer"])
    connection = -(-buffers // _NCCL_GRAIN) * _NCCL_GRAIN
    seen = [int(row["channels"]) for row in rows["nccl_channels"]]
    return min(seen) * connection, max(seen) * connection


@cache
def _bytes_of_multiprocessor() -> float:
    from statistics import median  # as the others below

    return median(int(row["bytes"]) / int(row["sm_count"]) for row in _rows()["context"])


@cache
def _rows() -> dict[str, list[dict[str, Any]]]:
    import pkgutil  # as in `gpu_table`
    import tomllib

    data = pkgutil.get_data("samedevice.machines", "libraries.toml")
    assert data is not None, "libraries.toml is part of the package"
    return tomllib.loads(data.decode())


@cache
def _workspaces() -> tuple[tuple[tuple[int, int], int], ...]:
    """The least capability and the bytes, newest first."""
    rows = []
    for row in _rows()["blas"]:
        major, _, minor = row["capability"].partition(".")
        rows.append(((int(major), int(minor)), int(row["bytes"])))
    return tuple(sorted(rows, reverse=True))
