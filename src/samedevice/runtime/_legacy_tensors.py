"""`torch.cuda.FloatTensor` and its siblings: old names for a type on the current GPU.

`torch.cuda.FloatTensor(2, 3)` makes a tensor of that size, `torch.cuda.FloatTensor([1.0])` one with these values;
`isinstance(x, torch.cuda.FloatTensor)` asks for the type and the device. As the default tensor type, it decides where factories
make tensors; see `_factories`.
"""

from __future__ import annotations

import functools
from typing import Any

import torch

from samedevice.runtime._patches import Patches
from samedevice.runtime._state import TorchDevice, current_state

_DTYPES = {
    "BFloat16Tensor": torch.bfloat16,
    "BoolTensor": torch.bool,
    "ByteTensor": torch.uint8,
    "CharTensor": torch.int8,
    "DoubleTensor": torch.float64,
    "FloatTensor": torch.float32,
    "HalfTensor": torch.float16,
    "IntTensor": torch.int32,
    "LongTensor": torch.int64,
    "ShortTensor": torch.int16,
}


class _LegacyTensorType(type):
    dtype: torch.dtype
    is_cuda = True
    is_sparse = False

    def __call__(cls, *args: Any, device: Any = None) -> Any:
        return _made(args, cls.dtype, current_state().device(device))

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, torch.Tensor) and instance.is_cuda and instance.dtype == cls.dtype

    @property
    def device(cls) -> torch.device:
        return TorchDevice("cuda")


def _made(args: tuple[Any, ...], dtype: torch.dtype, place: torch.device) -> torch.Tensor:
    if len(args) == 1 and not isinstance(args[0], int | torch.Size):
        return torch.as_tensor(args[0], dtype=dtype, device=place)
    size = args[0] if args and isinstance(args[0], torch.Size) else args or (0,)
    return torch.empty(size, dtype=dtype, device=place)


LEGACY_TENSORS: dict[str, type] = {
    name: _LegacyTensorType(name, (), {"__module__": "torch.cuda", "dtype": dtype}) for name, dtype in _DTYPES.items()
}


def install_legacy_tensors(patches: Patches) -> None:
    """Put the old names into `torch.cuda`, and let one of them be the default tensor type."""
    for name, kind in LEGACY_TENSORS.items():
        patches.attribute(torch.cuda, name, kind)
    original: Any = torch._C._set_default_tensor_type
    wrapped: list[bool] = []

    @functools.wraps(original)
    def set_default_tensor_type(kind: Any) -> None:
        state = current_state()
        if not isinstance(kind, _LegacyTensorType):
            original(kind)
            state.type_on_gpu = False
            return
        torch.set_default_dtype(kind.dtype)
        state.device(None)
        state.type_on_gpu = True
        if not wrapped:  # only now: whoever sets no such type shall have torch's own constructor
            wrapped.append(True)
            patches.attribute(torch.Tensor, "__new__", staticmethod(_constructor(torch.Tensor.__new__)))

    get_default_device: Any = torch._C._get_default_device
    patches.attribute(torch._C, "_set_default_tensor_type", set_default_tensor_type)
    patches.attribute(torch._C, "_get_default_device", lambda: "cuda" if current_state().type_on_gpu else get_default_device())


def _constructor(original: Any) -> Any:
    @functools.wraps(original)
    def new(cls: type[torch.Tensor], *args: Any, **kwargs: Any) -> torch.Tensor:
        """`torch.Tensor(2, 3)` makes a tensor of the default type."""
        if cls is torch.Tensor and not kwargs and current_state().type_on_gpu:
            return _made(args, torch.get_default_dtype(), current_state().device(None))
        made: torch.Tensor = original(cls, *args, **kwargs)
        return made

    return new
