"""CUDA extensions that a program builds while it runs.

There is no GPU to run them and seldom a compiler for them, and building fails late, in a compiler's words or
those of a missing toolkit. So an extension with CUDA's sources is refused by name before anything is built.
Only a kernel that computes what an operator of torch computes runs, as that operator: `_KERNELS`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import torch

from samedevice.errors import UnsupportedFeatureError
from samedevice.runtime.patching import Patch

_UNCORRECTED = 1e9
"""A step so late that Adam's correction of its first steps is 1."""


def _multi_tensor_adam(
    chunk_size: int,
    noop_flag: torch.Tensor,
    tensor_lists: Sequence[list[torch.Tensor]],
    lr: float,
    beta1: float,
    beta2: float,
    epsilon: float,
    step: int,
    mode: int,
    bias_correction: int,
    weight_decay: float,
) -> None:
    """Adam, or AdamW with `mode` 1, of lists of gradients, parameters and their two averages."""
    gradients, parameters, means, squares = tensor_lists
    adam = torch.ops.aten._fused_adamw_ if mode == 1 else torch.ops.aten._fused_adam_
    at = torch.full((), float(step) if bias_correction == 1 else _UNCORRECTED, device=parameters[0].device)
    with torch.no_grad():
        adam(
            parameters,
            gradients,
            means,
            squares,
            [],
            [at] * len(parameters),
            lr=lr,
            beta1=beta1,
            beta2=beta2,
            weight_decay=weight_decay,
            eps=epsilon,
            amsgrad=False,
            maximize=False,
        )


_KERNELS = {
    # deepspeed/ops/csrc/adam/multi_tensor_adam.cu
    "fused_adam": SimpleNamespace(multi_tensor_adam=_multi_tensor_adam),
}


def _load_op(original: Callable[..., Any]) -> Any:
    def load(self: Any, verbose: bool = False) -> Any:
        if (kernels := _KERNELS.get(self.name)) is not None:
            return kernels
        _refuse_cuda(self.name, self.sources())
        return original(self, verbose)

    return load


def _build(original: Callable[..., Any]) -> Any:
    def load(name: str, sources: str | list[str], *args: Any, **kwargs: Any) -> Any:
        _refuse_cuda(name, [sources] if isinstance(sources, str) else sources)
        return original(name, sources, *args, **kwargs)

    return load


def _build_inline(original: Callable[..., Any]) -> Any:
    def load_inline(name: str, cpp_sources: Any, cuda_sources: Any = None, *args: Any, **kwargs: Any) -> Any:
        _refuse_cuda(name, ["cuda.cu"] if cuda_sources else [])
        return original(name, cpp_sources, cuda_sources, *args, **kwargs)

    return load_inline


def _refuse_cuda(name: str, sources: Sequence[Any]) -> None:
    if any(str(source).endswith((".cu", ".cuh")) for source in sources):
        raise UnsupportedFeatureError(
            f"The CUDA extension {name} is not built on a virtual machine: its kernels are no operators of "
            "torch. Choose what computes the same with operators of torch."
        )


_WHY = "there is no GPU for kernels of CUDA, and building them would fail late"
PATCHES = (
    Patch("torch.utils.cpp_extension.load", _build, _WHY, package="torch.utils.cpp_extension"),
    Patch("torch.utils.cpp_extension.load_inline", _build_inline, _WHY, package="torch.utils.cpp_extension"),
    Patch(
        "deepspeed.ops.op_builder.builder.OpBuilder.load",
        _load_op,
        "its kernels would be built for a GPU; one that does what an operator of torch does runs as that",
        package="deepspeed.ops.op_builder.builder",
    ),
)
