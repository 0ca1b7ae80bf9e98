"""What a machine cannot take, refused where a script makes, moves or uses such a tensor."""

from __future__ import annotations

from typing import Any, NoReturn

import torch

from samedevice.errors import UnsupportedFeatureError
from samedevice.runtime.engine.interceptors import Proceed
from samedevice.runtime.state import is_virtual, raw_device, tensors_in

_OWN_MEMORY = (torch.Tensor, torch.nn.Parameter)
"""Classes whose device is that of their memory; another class may say what it likes."""


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


def refuse_real_gpus(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], proceed: Proceed) -> Any:
    """Refuse a tensor that is on a real GPU, which has the names of the machine's GPUs."""
    for value in (*args, *kwargs.values()):
        for tensor in tensors_in(value):
            if tensor.__class__ in _OWN_MEMORY and raw_device(tensor).type not in ("cpu", "meta"):
                raise UnsupportedFeatureError(
                    f"A tensor that was made on a real GPU ({raw_device(tensor)}) before the virtual machine "
                    "was entered is not supported there; make it inside, or move it to the host before."
                )
    return proceed(func, args, kwargs)
