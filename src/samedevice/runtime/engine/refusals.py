"""A layout that virtual GPUs do not have, refused where a script makes or moves such a tensor."""

from __future__ import annotations

from typing import Any, NoReturn

import torch

from samedevice.errors import UnsupportedFeatureError
from samedevice.runtime.state import is_virtual


def refuse_nested() -> NoReturn:
    """A nested tensor of strided layout is no tensor of sizes and strides that a carrier could be."""
    raise UnsupportedFeatureError(
        "Nested tensors of strided layout are not supported on GPUs of a virtual machine; make them with "
        "layout=torch.jagged."
    )


def nested(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What `torch.nested.nested_tensor` makes of a list of tensors.

    Its device stands behind type and layout.
    """
    device = kwargs.get("device", args[3] if len(args) > 3 else None)
    if (device is not None and torch.device(device).type == "cuda") or any(
        is_virtual(tensor) for tensor in args[0]
    ):
        refuse_nested()
    return NotImplemented
