"""`torch.cuda.FloatTensor` and its siblings: old names for a type on the current GPU.

`torch.cuda.FloatTensor(2, 3)` makes a tensor of that size, `torch.cuda.FloatTensor([1.0])` one with these
values; `isinstance(x, torch.cuda.FloatTensor)` asks for the type and the device. As the default tensor type,
it decides where factories make tensors; see `factories`.
"""

from __future__ import annotations

import functools
import warnings
from typing import Any

import torch

from samedevice.runtime.patching import Constant, Patch
from samedevice.runtime.state import TorchDevice, current_machine, type_name

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
        _warn()
        return _made(args, cls.dtype, current_machine().device(device))

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, torch.Tensor) and instance.is_cuda and instance.dtype == cls.dtype

    @property
    def device(cls) -> torch.device:
        return TorchDevice("cuda")


_ON_THE_HOST = {dtype: getattr(torch, name) for name, dtype in _DTYPES.items()}


def _warn() -> None:
    """C++ warns once, or always where a script says so."""
    if torch.is_warn_always_enabled() or not _warned:
        _warned.append(True)
        text = (
            "The torch.cuda.*DtypeTensor constructors are no longer recommended. It's best to use methods "
            "such as torch.tensor(data, dtype=*, device='cuda') to create tensors."
        )
        warnings.warn(text, UserWarning, stacklevel=3)


_warned: list[bool] = []


def _made(args: tuple[Any, ...], dtype: torch.dtype, place: torch.device) -> torch.Tensor:
    if len(args) == 1 and isinstance(args[0], torch.Tensor):
        _refuse_another(args[0], dtype, place)
    if len(args) == 1 and not isinstance(args[0], int | torch.Size):
        return torch.as_tensor(args[0], dtype=dtype, device=place)
    size = args[0] if args and isinstance(args[0], torch.Size) else args or (0,)
    return torch.empty(size, dtype=dtype, device=place)


def _refuse_another(given: torch.Tensor, dtype: torch.dtype, place: torch.device) -> None:
    """These constructors copy no tensor of another type or kind of device.

    Source: torch/csrc/utils/tensor_new.cpp, legacy_tensor_generic_ctor_new: check_legacy_ctor_device and the
    comparison of options; `TensorOptions` print themselves in c10/core/TensorOptions.cpp.
    """
    if given.dtype == dtype and given.device.type == place.type:
        return
    rest = (
        "layout=Strided, requires_grad=false (default), pinned_memory=false (default), "
        "memory_format=(nullopt))"
    )
    raise TypeError(
        f"expected TensorOptions(dtype={type_name(dtype)}, device={place.type}, {rest} "
        f"(got TensorOptions(dtype={type_name(given.dtype)}, device={given.device}, {rest})"
    )


LEGACY_TENSORS: dict[str, type] = {
    name: _LegacyTensorType(name, (), {"__module__": "torch.cuda", "dtype": dtype})
    for name, dtype in _DTYPES.items()
}


def type_named(name: str) -> tuple[torch.dtype, bool]:
    """Type of the elements, and whether on the GPU, of `torch.cuda.FloatTensor` and its kin."""
    if name == "torch.Tensor":
        return torch.get_default_dtype(), current_machine().type_on_gpu
    package, _, short = name.rpartition(".")
    if package not in ("torch", "torch.cuda") or short not in _DTYPES:
        raise ValueError(f"invalid type: '{name}'")
    return _DTYPES[short], package == "torch.cuda"


def _constructor(original: Any) -> Any:
    @functools.wraps(original)
    def new(cls: type[torch.Tensor], *args: Any, **kwargs: Any) -> torch.Tensor:
        """`torch.Tensor(2, 3)` makes a tensor of the default type.

        `Subclass(2, 3)` is a new object over fresh memory.

        C++ makes the memory first and then gives it the object. A mode in Python would see the memory in
        between, and it would have an object already.
        """
        if cls is torch.Tensor:
            if not kwargs and current_machine().type_on_gpu:
                return _made(args, torch.get_default_dtype(), current_machine().device(None))
            made: torch.Tensor = original(cls, *args, **kwargs)
            return made
        with torch._C._DisableTorchDispatch():
            made = original(cls, *args, **kwargs)
        return made

    return new


def _default_type_setter(original: Any) -> Any:
    @functools.wraps(original)
    def set_default_tensor_type(kind: Any) -> None:
        state = current_machine()
        if not isinstance(kind, _LegacyTensorType):
            original(kind)
            state.type_on_gpu = False
            return
        original(_ON_THE_HOST[kind.dtype])  # it warns that it is deprecated, and takes no integers
        state.device(None)
        state.type_on_gpu = True

    return set_default_tensor_type


_DEFAULT_TYPE = "a CUDA tensor type may be the default type, which C++ refuses without CUDA"
PATCHES = (
    *(
        Patch(
            f"torch.cuda.{name}",
            Constant(kind),
            "the old type names make tensors, and a build without CUDA has only stand-ins that raise",
        )
        for name, kind in LEGACY_TENSORS.items()
    ),
    Patch(
        "torch.Tensor.__new__",
        lambda original: staticmethod(_constructor(original)),
        "C++ makes the memory before the object; a mode would see it without one",
    ),
    Patch("torch._C._set_default_tensor_type", _default_type_setter, _DEFAULT_TYPE),
    Patch(
        "torch._C._get_default_device",
        lambda original: lambda: "cuda" if current_machine().type_on_gpu else original(),
        _DEFAULT_TYPE,
    ),
)
