"""Dropout on virtual GPUs keeps what CUDA's keeps: a mask of one byte an element.

`aten::dropout` is a composite that calls `native_dropout` for CUDA tensors only (`is_fused_kernel_acceptable` in
`aten/src/ATen/native/Dropout.cpp`); carriers would get a mask in their own type. See Note [Attention below autograd's composite] for
how a composite is replaced.
"""

from __future__ import annotations

import threading
from typing import Any

import torch
from torch.library import Library

from samedevice.runtime._memory import engine
from samedevice.runtime._patches import Patches
from samedevice.runtime._tensors import seen_device

_dropout = torch.ops.aten.dropout.default
_COMPOSITE: Any = torch._C._parse_dispatch_key("CompositeImplicitAutograd")


def drop(input: torch.Tensor, p: float, train: bool) -> torch.Tensor:
    """`aten::dropout` where the tensor is a carrier."""
    if engine.raw or not train or not 0.0 < p < 1.0 or input.numel() == 0 or seen_device(input).type != "cuda":
        plain: torch.Tensor = _dropout._op_dk(_COMPOSITE, input, p, train)
        return plain
    kept: torch.Tensor = torch.ops.aten.native_dropout.default(input, p, train)[0]
    return kept


class _Kernel:
    """The registration with the dispatcher; machines nest and share it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._machines = 0
        self._library: Library | None = None

    def enter(self) -> None:
        with self._lock:
            self._machines += 1
            if self._library is None:
                self._library = Library("aten", "IMPL")  # type: ignore[no-untyped-call]  # torch's own
                self._library.impl(_dropout, drop, "AutogradMeta")  # type: ignore[no-untyped-call]  # torch's own

    def leave(self) -> None:
        with self._lock:
            self._machines -= 1
            if not self._machines and self._library is not None:
                self._library._destroy()  # type: ignore[no-untyped-call]  # torch's own
                self._library = None


_kernel = _Kernel()


def install_dropout(patches: Patches) -> None:
    """Give dropout on virtual tensors the kernel of the GPU."""
    patches.call(_kernel.enter, _kernel.leave, "dispatcher.dropout")
    by_key: dict[Any, Any] = _dropout.py_kernels
    patches.item(by_key, _COMPOSITE, drop)
