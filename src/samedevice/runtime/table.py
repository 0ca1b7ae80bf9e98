"""The table of everything that a machine replaces: the rows of all modules, in their order."""

from __future__ import annotations

from samedevice.runtime.checkpoints import GHOSTS, SAFE_OPEN, SAFETENSORS, SERIALIZATION
from samedevice.runtime.cuda import ACCELERATOR, DATA_PARALLEL, GENERATORS, NVML, TORCH_CUDA
from samedevice.runtime.distributed import ONE_PROCESS, OWN_RANKS, PROCESS_GROUPS, REDUCER
from samedevice.runtime.engine import WORDING, WRAPPERS
from samedevice.runtime.host import (
    COMPILE,
    CONFLICTS,
    EXTENSIONS,
    FORKS,
    GRAPHS,
    LAUNCHES,
    THREADS,
    TORCHSCRIPT,
)
from samedevice.runtime.kernels import (
    ATTENTION,
    AUTOCAST,
    COMPOSITE_REPAIRS,
    CTC,
    DEVICE_CHECKS,
    DROPOUT,
    FOREACH_ROUTE,
    GRADIENTS_OF_SELECTIONS,
    RECURRENT,
    RMS_NORM,
)
from samedevice.runtime.patching import PatchTable
from samedevice.runtime.tensors import (
    DLPACK,
    FACTORIES,
    GRADIENT_CHECKS,
    GRADIENTS,
    GROUPING,
    REPLACED_DATA,
    SHARING,
    STORAGES,
    TENSORS,
)

TABLE = PatchTable(
    (
        *GENERATORS,
        *TORCH_CUDA,
        *ACCELERATOR,
        *NVML,
        *DATA_PARALLEL,
        *ONE_PROCESS,
        *PROCESS_GROUPS,
        *OWN_RANKS,
        *REDUCER,
        *FACTORIES,
        *TENSORS,
        *GROUPING,
        *WRAPPERS,
        *GRAPHS,
        *DEVICE_CHECKS,
        *LAUNCHES,
        *EXTENSIONS,
        *STORAGES,
        *SERIALIZATION,
        *SAFE_OPEN,
        *SAFETENSORS,
        *DLPACK,
        *SHARING,
        *THREADS,
        *FORKS,
        *COMPILE,
        *TORCHSCRIPT,
        *AUTOCAST,
        *ATTENTION,
        *DROPOUT,
        *CTC,
        *FOREACH_ROUTE,
        *COMPOSITE_REPAIRS,
        *RECURRENT,
        *RMS_NORM,
        *GRADIENTS_OF_SELECTIONS,
        *GRADIENTS,
        *GRADIENT_CHECKS,
        *REPLACED_DATA,
        *GHOSTS,
        *CONFLICTS,
        *WORDING,
    )
)
