"""The model inside the wrappers of torch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from samedevice.errors import UsageError
from samedevice.messages import Phrase

if TYPE_CHECKING:
    import torch


def unwrapped(model: torch.nn.Module) -> torch.nn.Module:
    """The model itself: not compiled, not replicated.

    Raises `UsageError` for what is no module.
    """
    import torch

    if not isinstance(model, torch.nn.Module):
        raise UsageError(Phrase("model.no-module", kind=type(model).__name__))
    while True:
        inner = model._modules.get("_orig_mod")
        if inner is None and type(model).__name__ in ("DataParallel", "DistributedDataParallel"):
            inner = model._modules.get("module")
        if inner is None:
            return model
        model = inner
