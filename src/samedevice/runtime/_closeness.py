"""`isclose` of values that nobody computed: close, as `allclose` and `equal` assume, so that a check of results lets the program go on.

`isclose` is a composite: taken apart it would compare unknown differences, and an unknown boolean is false.
"""

from __future__ import annotations

from typing import Any

import torch

from samedevice.runtime._memory import VALUE_LIMIT, engine, memory_of, storage_of
from samedevice.runtime._patches import Patches


def install_closeness(patches: Patches) -> None:
    """Replace `torch.isclose` and `Tensor.isclose`."""
    for owner, name in ((torch, "isclose"), (torch.Tensor, "isclose")):
        patches.attribute(owner, name, _assuming(getattr(owner, name)))


def _assuming(compare: Any) -> Any:
    def isclose(*args: Any, **kwargs: Any) -> Any:
        result = compare(*args, **kwargs)
        if not engine.raw and isinstance(result, torch.Tensor):
            _assume(result)
        return result

    isclose.__doc__ = compare.__doc__
    return isclose


def _assume(result: torch.Tensor) -> None:
    """True in every place, where it is a carrier whose values are not computed and may be had."""
    record = memory_of(result)
    if record is None or not record.virtual or not record.uncomputed or storage_of(result).nbytes() > VALUE_LIMIT:
        return
    before, engine.raw = engine.raw, True
    try:
        record.shadow = torch.ones(storage_of(result).nbytes(), dtype=torch.bool, device="cpu").untyped_storage()
        record.assumed = True
    finally:
        engine.raw = before
