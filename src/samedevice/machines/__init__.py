"""Machines as data: what GPUs there are, what a machine specification means. Nothing here needs torch."""

from __future__ import annotations

from samedevice.machines._file import is_file_spec
from samedevice.machines._gpu import Gpu, gpu_table
from samedevice.machines._libraries import blas_workspace, cuda_context, nccl_rings
from samedevice.machines._link import Link
from samedevice.machines._lookup import gpus_like, nearest_keys
from samedevice.machines._machine import Machine
from samedevice.machines._size import size_in_mib
from samedevice.machines._spec import parse_machine
from samedevice.machines._value_limit import value_limit
from samedevice.machines._visible import visible_gpus

__all__ = [
    "Gpu",
    "Link",
    "Machine",
    "blas_workspace",
    "cuda_context",
    "gpu_table",
    "gpus_like",
    "is_file_spec",
    "nccl_rings",
    "nearest_keys",
    "parse_machine",
    "size_in_mib",
    "value_limit",
    "visible_gpus",
]
