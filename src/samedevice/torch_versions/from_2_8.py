"""torch 2.8 and 2.9."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch

from samedevice.torch_versions import from_2_6 as older
from samedevice.torch_versions.differences import Hooks

_autograd: Any = torch._C._autograd


def _saved_tensor_hooks() -> Hooks | None:
    found: Hooks | None = _autograd._top_saved_tensors_default_hooks(True)  # without those that trace
    return found


DIFFERENCES = replace(
    older.DIFFERENCES,
    accelerator_error=torch.AcceleratorError,
    saved_tensor_hooks=_saved_tensor_hooks,
    leave_untraced=older.newer_leave_untraced,
    is_exporting=torch.compiler.is_exporting,
)
