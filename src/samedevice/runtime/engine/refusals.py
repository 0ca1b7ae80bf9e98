"""Layouts that virtual GPUs do not have, refused where a script makes or moves such a tensor."""

from __future__ import annotations

from typing import Any, NoReturn

import torch

from samedevice.errors import UnsupportedFeatureError
from samedevice.runtime.state import is_virtual, tensors_in

_aten = torch.ops.aten
MAKES_QUANTIZED = (
    _aten._empty_affine_quantized.default,
    _aten._empty_per_channel_affine_quantized.default,
    _aten.quantize_per_tensor.default,
    _aten.quantize_per_tensor.tensor_qparams,
    _aten.quantize_per_channel.default,
    _aten.quantize_per_tensor_dynamic.default,
)


def refuse_nested() -> NoReturn:
    """A nested tensor of strided layout is no tensor of sizes and strides that a carrier could be."""
    raise UnsupportedFeatureError(
        "Nested tensors of strided layout are not supported on GPUs of a virtual machine; make them with "
        "layout=torch.jagged."
    )


def refuse_quantized() -> NoReturn:
    """A quantized tensor has a type that carriers do not have."""
    raise UnsupportedFeatureError(
        "Quantized tensors are not supported on GPUs of a virtual machine; keep them on the host, or "
        "quantize with torch.fake_quantize_per_tensor_affine, which works."
    )


def quantizes(op: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """An operator that makes a quantized tensor, of another one or of nothing."""
    device = kwargs.get("device")
    of_gpu = any(is_virtual(tensor) for tensor in tensors_in(args[:1]))
    if of_gpu or (device is not None and torch.device(device).type == "cuda"):
        refuse_quantized()
    return NotImplemented


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
