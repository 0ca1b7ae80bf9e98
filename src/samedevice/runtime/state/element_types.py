"""Types of elements as C++ prints them in messages."""

from __future__ import annotations

import torch

_NAMES = {
    torch.float32: "float",
    torch.float64: "double",
    torch.float16: "c10::Half",
    torch.bfloat16: "c10::BFloat16",
    torch.int64: "long int",
    torch.int32: "int",
    torch.int16: "short",
    torch.int8: "signed char",
    torch.uint8: "unsigned char",
    torch.bool: "bool",
}


def type_name(dtype: torch.dtype) -> str:
    """`c10::Half`: as `caffe2::TypeMeta` prints it."""
    return _NAMES.get(dtype, str(dtype).removeprefix("torch."))
