"""`torch.cuda.FloatTensor` and its siblings: old names for a type on the current GPU.

`torch.cuda.FloatTensor(2, 3)` makes a tensor of that size, `torch.cuda.FloatTensor([1.0])` one with these values;
`isinstance(x, torch.cuda.FloatTensor)` asks for the type and the device.
"""

from __future__ import annotations

from typing import Any

import torch

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
        place = current_state().device(device)
        if len(args) == 1 and not isinstance(args[0], int | torch.Size):
            return torch.as_tensor(args[0], dtype=cls.dtype, device=place)
        size = args[0] if args and isinstance(args[0], torch.Size) else args or (0,)
        return torch.empty(size, dtype=cls.dtype, device=place)

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, torch.Tensor) and instance.is_cuda and instance.dtype == cls.dtype

    @property
    def device(cls) -> torch.device:
        return TorchDevice("cuda")


LEGACY_TENSORS: dict[str, type] = {
    name: _LegacyTensorType(name, (), {"__module__": "torch.cuda", "dtype": dtype}) for name, dtype in _DTYPES.items()
}
