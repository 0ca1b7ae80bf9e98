"""`scaled_dot_product_attention` refuses mixed devices as a GPU does, before C++ takes the call apart.

Note [Attention on mixed devices]
C++ checks query, key and value against each other at its door, in words of its own, and then chooses a fused kernel. For virtual
tensors it sees meta everywhere: it passes the door and takes the math path, whose first matrix product would be refused instead.
The mask is not looked at there; the memory-efficient kernel refuses it, and that is the one that takes masks.
Source: aten/src/ATen/native/transformers/attention.cpp, validate_sdpa_input.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from samedevice.events import EventKind
from samedevice.rules import Argument, judge_devices, row_for
from samedevice.runtime._books import caller
from samedevice.runtime._memory import engine
from samedevice.runtime._operators import aten, operator
from samedevice.runtime._patches import Patches
from samedevice.runtime._recorder import Recorder
from samedevice.runtime._tensors import move, seen_device

_attention = torch.nn.functional.scaled_dot_product_attention
_EFFICIENT = aten._scaled_dot_product_efficient_attention.default
_FUSED_TYPES = (torch.float32, torch.float16, torch.bfloat16)
_TORCH_VERSION = tuple(int(part) for part in torch.__version__.split(".")[:2])


def install_attention(patches: Patches, recorder: Recorder) -> None:
    """Put the check in front of torch's own function."""

    def scaled_dot_product_attention(
        query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, attn_mask: torch.Tensor | None = None, *args: Any, **kwargs: Any
    ) -> torch.Tensor:
        if not engine.raw:
            query, key, value, attn_mask = _together(recorder, query, key, value, attn_mask)
        result: torch.Tensor = _attention(query, key, value, attn_mask, *args, **kwargs)
        return result

    scaled_dot_product_attention.__doc__ = _attention.__doc__
    for owner in (torch.nn.functional, torch._C._nn):
        patches.attribute(owner, "scaled_dot_product_attention", scaled_dot_product_attention)


def _together(
    recorder: Recorder, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, mask: torch.Tensor | None
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor | None]:
    tensors = [query, key, value] if mask is None else [query, key, value, mask]
    devices = [seen_device(tensor) for tensor in tensors]
    home = devices[0]
    types = {device.type for device in devices}
    if all(device == home for device in devices) or "cuda" not in types or "meta" in types:
        return query, key, value, mask
    if devices[1] != home or devices[2] != home:
        message = (
            "Expected query, key, and value to have the same device type, but got query.device: "
            f"{home} key.device: {devices[1]} and value.device: {devices[2]} instead."
        )
        _refuse(recorder, aten.scaled_dot_product_attention.default, message, ("query", "key", "value"), tensors[:3], devices[:3])
    elif home.type == "cuda" and query.dim() == 4 and query.dtype in _FUSED_TYPES:
        names = ("query", "key", "value", "attn_bias")
        arguments = [Argument(n, str(d), t.dim(), False) for n, t, d in zip(names, tensors, devices, strict=True)]
        refusal = judge_devices(row_for(str(_EFFICIENT)), arguments, _TORCH_VERSION)  # type: ignore[arg-type]  # two parts
        if refusal is not None:
            _refuse(recorder, _EFFICIENT, refusal.message, names, tensors, devices)
    else:
        return query, key, value, mask  # the math path refuses it
    target = home if home.type == "cuda" else next(device for device in devices if device.type == "cuda")
    moved = [move(tensor, target) for tensor in tensors]
    return moved[0], moved[1], moved[2], None if mask is None else moved[3]


def _refuse(
    recorder: Recorder,
    func: Any,
    message: str,
    names: Sequence[str],
    tensors: Sequence[torch.Tensor],
    devices: Sequence[torch.device],
) -> None:
    named = [(name, tensor, False) for name, tensor in zip(names, tensors, strict=True)]
    recorder.refused(EventKind.MISMATCH, operator(func), message, named, devices, caller())
