"""Factories and `torch.device` take integers as devices, and obey a default tensor type on a GPU.

Nothing else about them changes.

Note [Real factories first]
`torch.utils._device._device_constructors()` remembers the factories at its first use, and `with
torch.device(...)` compares against them. It is asked when this module is loaded, before anything is wrapped,
or such a context would silently do nothing.
"""

from __future__ import annotations

import copyreg
import functools
from collections.abc import Callable
from typing import Any

import torch
import torch.utils._device
import torch.utils.dlpack

from samedevice.provenance import Site
from samedevice.runtime.patching import Constant, Entry, Patch, Row
from samedevice.runtime.state import (
    CPU,
    META,
    TorchDevice,
    aten,
    current_machine,
    entered,
    is_virtual,
    memory_of,
    note_made,
    taken_from,
    taking,
    this_thread,
    without_number,
)
from samedevice.runtime.tensors.dlpack import Capsule
from samedevice.runtime.tracking import Tracker

torch.utils._device._device_constructors()  # Note [Real factories first]

_WITH_DEVICE = (
    "arange", "bartlett_window", "blackman_window", "empty", "empty_permuted", "empty_strided", "eye",
    "full", "hamming_window",
    "hann_window", "kaiser_window", "linspace", "logspace", "normal", "ones", "rand", "randint", "randn",
    "randperm",
    "scalar_tensor", "tril_indices", "triu_indices", "zeros",
)  # fmt: skip
_LIKE = ("empty_like", "full_like", "ones_like", "rand_like", "randint_like", "randn_like", "zeros_like")
_METHODS = ("new_empty", "new_empty_strided", "new_full", "new_ones", "new_zeros")


_OF_PARTS = {
    "sparse_coo_tensor": ("indices", "values"),
    "sparse_csr_tensor": ("crow_indices", "col_indices", "values"),
    "sparse_csc_tensor": ("ccol_indices", "row_indices", "values"),
    "sparse_bsr_tensor": ("crow_indices", "col_indices", "values"),
    "sparse_bsc_tensor": ("ccol_indices", "row_indices", "values"),
    "sparse_compressed_tensor": ("compressed_indices", "plain_indices", "values"),
}


def _site() -> Site | None:
    return current_machine().part(Tracker).site() if entered() and not this_thread.raw else None


class _DeviceType(type):
    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, TorchDevice)

    def __subclasscheck__(cls, subclass: type) -> bool:
        return issubclass(subclass, TorchDevice)

    def __eq__(cls, other: object) -> bool:
        return other is cls or other is TorchDevice  # tables of torch have the class itself as a key

    def __hash__(cls) -> int:
        return hash(TorchDevice)

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        first = args[0] if args else kwargs.get("device")
        if (
            isinstance(first, int)
            and not isinstance(first, bool)
            and len(args) <= 1
            and "index" not in kwargs
        ):
            return note_made(TorchDevice("cuda", first), _site())
        made = TorchDevice(*args, **kwargs)
        return note_made(made, taken_from(first) or _site())


class _Device(metaclass=_DeviceType):
    """`torch.device` inside a machine: `torch.device(0)` is the first GPU, as where CUDA is."""


_Device.__name__ = _Device.__qualname__ = "device"
_Device.__module__ = "torch"


def _reduce_device(device: torch.device) -> Any:
    # Pickled by the name `torch.device`, so that the pickle can be read outside the machine.
    return (_Device, (device.type,) if device.index is None else (device.type, device.index))


def _with_integers(original: Callable[..., Any], *, by_default: bool = False) -> Callable[..., Any]:
    """`by_default`: where neither a device nor `out=` is given, the default tensor type says where."""

    @functools.wraps(original, updated=())
    def factory(*args: Any, **kwargs: Any) -> Any:
        device = kwargs.get("device")
        if device is not None:
            if isinstance(device, int):
                kwargs["device"] = current_machine().device(device)
            if isinstance(kwargs.get("out"), torch.Tensor) and is_virtual(kwargs["out"]):
                _check_out(kwargs)
            with taking(device):
                return original(*args, **kwargs)
        elif by_default and current_machine().type_on_gpu:
            _place_by_type(args, kwargs)
        return original(*args, **kwargs)

    return factory


def _place_by_type(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Where tensors are given, they tell where results are."""
    if not any(isinstance(value, torch.Tensor) for value in (*args, *kwargs.values())):
        kwargs["device"] = _default_device()


def _range(original: Callable[..., Any]) -> Callable[..., Any]:
    """C++ would guard the device of `torch.range` before any mode sees the call."""
    elsewhere = _with_integers(original)

    @functools.wraps(original, updated=())
    def factory(*args: Any, **kwargs: Any) -> Any:
        if kwargs.get("out") is not None:
            return elsewhere(*args, **kwargs)
        device = kwargs.pop("device", None)
        if device is None:
            device = _default_device()
        place = CPU if device is None else current_machine().device(device)
        made = original(
            *args, device=META if place.type == "cuda" else place, **kwargs
        )  # it also checks and warns
        if place.type != "cuda":
            return made
        bounds = {name: kwargs[name] for name in ("start", "end", "step") if name in kwargs}
        return aten.range.step(*args, **bounds, dtype=made.dtype, device=place).requires_grad_(
            made.requires_grad
        )

    return factory


def _of_parts(original: Callable[..., Any], names: tuple[str, ...]) -> Callable[..., Any]:
    """C++ makes the parts on the device that it is told, and has none such."""

    @functools.wraps(original, updated=())
    def factory(*args: Any, **kwargs: Any) -> Any:
        device = kwargs.get("device")
        given = {
            **dict(zip((*names, "size"), args, strict=False)),
            **{key: value for key, value in kwargs.items() if key != "device"},
        }
        values = given.get("values")
        if device is None:
            device = _device_of_context() if isinstance(values, torch.Tensor) else _default_device()
        if device is None and isinstance(values, torch.Tensor):
            device = values.device  # where indices are made that are no tensor
            moved = [name for name in names if not isinstance(given.get(name), torch.Tensor)]
        else:
            moved = [*names]
        place = None if device is None else current_machine().device(device)
        if place is None or place.type != "cuda" or not moved:
            return original(*args, **kwargs)
        if values is None:
            size = given.pop("size", args[0] if args else None)
            return (
                torch.zeros(size, dtype=given.get("dtype"), device=place)
                .to_sparse()
                .requires_grad_(bool(given.get("requires_grad")))
            )
        for name in moved:
            given[name] = torch.as_tensor(
                given[name], dtype=given.get("dtype") if name == "values" else None, device=place
            )
        with torch._C.DisableTorchFunction():  # a context would name its device again
            return original(**given)

    return factory


def _check_out(kwargs: dict[str, Any]) -> None:
    """C++ compares the type of `device=` with that of `out=`, which is meta for it.

    Compare here and leave `device` away.
    """
    wanted, own = current_machine().device(kwargs.pop("device")).type, kwargs["out"].device.type
    if wanted != own:
        raise RuntimeError(f"device type {wanted} does not match device type of out parameter ({own})")


def _from_data(original: Callable[..., Any]) -> Callable[..., Any]:
    """`torch.tensor` and friends read scalars out of nested lists below every mode: hand them Python numbers.

    See also Note [Lists as indices].
    """

    @functools.wraps(original, updated=())
    def factory(*given: Any, **kwargs: Any) -> Any:
        if not given:
            return original(**kwargs)  # `data=`, or torch's own words for what is missing
        data, args = given[0], given[1:]
        if kwargs.get("pin_memory"):
            return factory(*given, **{**kwargs, "pin_memory": False}).pin_memory()
        device = kwargs.get("device")
        if device is None:
            device = _device_of_context() if isinstance(data, torch.Tensor) else _default_device()
        unnumbered = kwargs.get("device") is not None and _without_number(device)
        if device is not None:  # C++ would ask a CUDA build which index `cuda` means
            kwargs["device"] = current_machine().device(device)
        if isinstance(data, (list, tuple)):
            scalars: list[torch.dtype] = []
            data = _numbers(data, scalars)
            if scalars and kwargs.get("dtype") is None and not args:
                kwargs["dtype"] = functools.reduce(torch.promote_types, scalars)
        with taking(device):
            made = original(data, *args, **kwargs)
        record = memory_of(made) if unnumbered and made is not data else None
        if record is not None and record.decision is not None:
            record.decision.without_index = True
        return made

    return factory


def _without_number(device: Any) -> bool:
    """The same of what a program gives as `device=`: a device, its name, or a number."""
    told = TorchDevice(device) if isinstance(device, str) else device
    return isinstance(told, TorchDevice) and without_number(told)


def _as_tensor(original: Callable[..., Any]) -> Callable[..., Any]:
    """C++ would copy: for it a tensor on a virtual GPU is never where `device=` says."""
    inner = _from_data(original)

    @functools.wraps(inner, updated=())
    def factory(data: Any, *args: Any, **kwargs: Any) -> Any:
        if (
            args
            or not isinstance(data, torch.Tensor)
            or not is_virtual(data)
            or not kwargs.keys() <= {"dtype", "device"}
        ):
            return inner(data, *args, **kwargs)
        device = kwargs.get("device")
        wanted = _wanted(data, None) if device is None else device
        return data.to(device=wanted, dtype=kwargs.get("dtype"))

    return factory


def _asarray(original: Callable[..., Any]) -> Callable[..., Any]:
    """`torch.asarray` of a tensor brings it where it is wanted, or refuses.

    C++ then decides about its gradient alone.

    Source of the decision: torch/csrc/utils/tensor_new.cpp, asarray_data.
    """
    inner = _from_data(original)

    @functools.wraps(original, updated=())
    def factory(obj: Any, *args: Any, **kwargs: Any) -> Any:
        if isinstance(obj, Capsule):
            obj = torch.utils.dlpack.from_dlpack(obj)
        if args or not isinstance(obj, torch.Tensor):
            return inner(obj, *args, **kwargs)
        device, dtype, copy = (
            _wanted(obj, kwargs.pop("device", None)),
            kwargs.pop("dtype", None),
            kwargs.pop("copy", None),
        )
        if copy is False:
            if device != obj.device:
                raise ValueError(f"can't alias tensor from device '{obj.device}' to '{device}'.")
            return original(obj, device=_device_in_c(obj), dtype=dtype, copy=False, **kwargs)
        moved = obj.to(device=device, dtype=dtype, copy=bool(copy))
        return original(moved, device=_device_in_c(moved), **kwargs)

    return factory


def _wanted(data: torch.Tensor, device: Any) -> torch.device:
    """Where a tensor is to be that a factory was given."""
    if device is None:
        device = _device_of_context()
    return data.device if device is None else current_machine().device(device)


def _device_in_c(tensor: torch.Tensor) -> torch.device:
    return META if is_virtual(tensor) else tensor.device


def _default_device() -> torch.device | None:
    """Where a factory makes a tensor when nobody says; None is the host.

    A context counts more than the default tensor type.
    """
    if this_thread.raw:
        return None
    found = _device_of_context()
    return current_machine().device(None) if found is None and current_machine().type_on_gpu else found


def _device_of_context() -> torch.device | None:
    """The device of the innermost `with torch.device(...)`, or of `torch.set_default_device`."""
    for position in reversed(range(torch._C._len_torch_function_stack())):
        mode = torch._C._get_function_stack_at(position)
        if isinstance(mode, torch.utils._device.DeviceContext):
            return mode.device
    return None


def _numbers(value: Any, scalars: list[torch.dtype]) -> Any:
    if isinstance(value, torch.Tensor):
        if value.numel() != 1:
            if not is_virtual(value):
                return value  # C++ refuses it
            if not (value.dtype.is_floating_point or value.dtype.is_complex):
                raise TypeError("only integer tensors of a single element can be converted to an index")
            raise ValueError("only one element tensors can be converted to Python scalars")
        scalars.append(value.dtype)
        return value.item()
    if isinstance(value, (list, tuple)):
        if not any(isinstance(part, (torch.Tensor, list, tuple)) for part in value):
            return value
        return [_numbers(part, scalars) for part in value]
    return value


_INTEGERS = (
    "`device=0` means the first GPU, and a default tensor type may be on it, only where C++ finds CUDA"
)
_LISTS = "C++ reads numbers out of nested lists below every mode, where a carrier has none"
PATCHES: tuple[Row, ...] = (
    *(
        Patch(f"torch.{name}", functools.partial(_with_integers, by_default=True), _INTEGERS)
        for name in (*_WITH_DEVICE, "fft.fftfreq", "fft.rfftfreq")
    ),
    *(Patch(f"torch.{name}", _with_integers, _INTEGERS) for name in _LIKE),
    Patch("torch.range", _range, "C++ would guard the device of its result before any mode sees the call"),
    Patch("torch.tensor", _from_data, _LISTS),
    Patch("torch.as_tensor", _as_tensor, f"{_LISTS}; a tensor on a virtual GPU would be copied each time"),
    Patch("torch.asarray", _asarray, f"{_LISTS}; of a tensor it would compare devices that it does not see"),
    *(
        Patch(
            f"torch.{name}",
            functools.partial(_of_parts, names=parts),
            "C++ makes the parts on the device that it is told, and has none such",
        )
        for name, parts in _OF_PARTS.items()
    ),
    *(Patch(f"torch.Tensor.{name}", _with_integers, _INTEGERS) for name in _METHODS),
    Patch("torch.device", Constant(_Device), "`torch.device(0)` is the first GPU only where C++ finds CUDA"),
    Entry(
        "copyreg.dispatch_table[torch.device]",
        lambda: copyreg.dispatch_table,
        TorchDevice,
        Constant(_reduce_device),
        "a pickle names `torch.device`, so that it can be read outside the machine",
    ),
)
