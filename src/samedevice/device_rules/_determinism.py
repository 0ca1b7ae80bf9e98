"""Operators of which CUDA has no deterministic kernel, and the CPU has.

Each row has the name that CUDA's kernel gives itself.

Sources: `alertNotDeterministic` in ATen/native/cuda, and what `torch.use_deterministic_algorithms` documents;
kernels that became deterministic (`cumsum`, `kthvalue`) have no row.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

Condition = Callable[[Mapping[str, Any]], bool]
_MODE_MAX = 2
"""Of `EmbeddingBag`."""


def _always(_arguments: Mapping[str, Any]) -> bool:
    return True


_ROWS: dict[str, tuple[str, Condition]] = {
    "_adaptive_avg_pool2d_backward": ("adaptive_avg_pool2d_backward_cuda", _always),
    "_adaptive_avg_pool3d_backward": ("adaptive_avg_pool3d_backward_cuda", _always),
    "adaptive_max_pool2d_backward": ("adaptive_max_pool2d_backward_cuda", _always),
    "adaptive_max_pool3d_backward": ("adaptive_max_pool3d_backward_cuda", _always),
    "avg_pool3d_backward": ("avg_pool3d_backward_cuda", _always),
    "max_pool3d_with_indices_backward": ("max_pool3d_with_indices_backward_cuda", _always),
    "fractional_max_pool2d_backward": ("fractional_max_pool2d_backward_cuda", _always),
    "fractional_max_pool3d_backward": ("fractional_max_pool3d_backward_cuda", _always),
    "upsample_linear1d_backward": ("upsample_linear1d_backward_out_cuda", _always),
    "upsample_bilinear2d_backward": ("upsample_bilinear2d_backward_out_cuda", _always),
    "upsample_bicubic2d_backward": ("upsample_bicubic2d_backward_out_cuda", _always),
    "upsample_trilinear3d_backward": ("upsample_trilinear3d_backward_out_cuda", _always),
    "_upsample_bilinear2d_aa_backward": ("upsample_bilinear2d_aa_backward_out_cuda", _always),
    "_upsample_bicubic2d_aa_backward": ("upsample_bicubic2d_aa_backward_out_cuda", _always),
    "reflection_pad1d_backward": ("reflection_pad1d_backward_out_cuda", _always),
    "reflection_pad2d_backward": ("reflection_pad2d_backward_cuda", _always),
    "reflection_pad3d_backward": ("reflection_pad3d_backward_out_cuda", _always),
    "replication_pad1d_backward": ("replication_pad1d_backward_cuda", _always),
    "replication_pad2d_backward": ("replication_pad2d_backward_cuda", _always),
    "replication_pad3d_backward": ("replication_pad3d_backward_cuda", _always),
    "grid_sampler_2d_backward": ("grid_sampler_2d_backward_cuda", _always),
    "grid_sampler_3d_backward": ("grid_sampler_3d_backward_cuda", _always),
    "nll_loss2d_forward": ("nll_loss2d_forward_out_cuda_template", _always),
    "_ctc_loss_backward": ("ctc_loss_backward_gpu", _always),
    "_embedding_bag_backward": (
        "embedding_bag_backward_cuda_max",
        lambda arguments: arguments["mode"] == _MODE_MAX and not arguments["sparse"],
    ),
    "_embedding_bag_dense_backward": (
        "embedding_bag_backward_cuda_max",
        lambda arguments: arguments["mode"] == _MODE_MAX,
    ),
    "put": ("put_", lambda arguments: bool(arguments.get("accumulate"))),
    "put_": ("put_", lambda arguments: bool(arguments.get("accumulate"))),
    "histc": (
        "_histc_cuda with floating point input",
        lambda arguments: bool(arguments["self"].dtype.is_floating_point),
    ),
    "bincount": ("_bincount_cuda", lambda arguments: arguments.get("weights") is not None),
    "median": ("median CUDA with indices output", lambda arguments: "dim" in arguments),
    "nanmedian": ("median CUDA with indices output", lambda arguments: "dim" in arguments),
    "scatter_reduce": ("scatter_reduce_cuda_prod_", lambda arguments: arguments["reduce"] == "prod"),
    "scatter_reduce_": ("scatter_reduce_cuda_prod_", lambda arguments: arguments["reduce"] == "prod"),
}
"""By operator: how CUDA's kernel names itself, and when it complains. `put_` without accumulation complains
on the CPU, too.
"""


def nondeterministic(short: str) -> tuple[str, Condition] | None:
    """The row of an operator, by its name without overload."""
    return _ROWS.get(short)
