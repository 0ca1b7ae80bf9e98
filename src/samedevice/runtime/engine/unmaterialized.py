"""What an operator does that meets a tensor on the meta device among tensors that have data.

Note [Meta beside data]
The dispatcher prefers meta to every other backend: with one tensor on meta the operator's shape function runs
and no kernel does. What comes of it depends on that function alone. Those in Python compare devices (`add`,
`mul`, `layer_norm`); those in C++ do not: a product with a weight that was never loaded raises nothing, and
its result is on the GPU, in memory that nobody filled, or on meta, wherever its options came from. So no
table says what happens: torch is asked, with tensors on the host in the place of those on a GPU. On an NVIDIA
H200 (torch 2.11) a quarter of the database's cases raised nothing: `measurements/rules`.

Note [Nothing is computed]
A shape function in Python calls other operators, some with stand-ins alone, and those would be computed. A
mode takes them and gives results of the right shape. Memory that nobody writes costs nothing, so large
stand-ins and results are maps of pages that the system never backs.

Note [Numbers]
A tensor without dimensions on the host may meet any device, and one on a GPU may not. Its stand-in has one
dimension at first; where that is refused for another reason than devices, it is asked as it is.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch._C import DispatchKey
from torch.utils._python_dispatch import TorchDispatchMode

from samedevice.events import SilentResult
from samedevice.runtime.state import CPU, META, VALUE_LIMIT, Call, held, tensors_in
from samedevice.runtime.tracking import replace_tensors, to_meta, to_value, unbacked

Tensor = torch.Tensor
Named = Sequence[tuple[str, torch.Tensor, bool]]
EXPLICIT = (DispatchKey.CompositeExplicitAutograd, DispatchKey.CompositeExplicitAutogradNonFunctional)
"""Where operators that are made of others have their kernel."""
_ABOUT_DEVICES = re.compile(r"\bdevices?\b|\bmeta\b", re.I)
_TOO_LARGE = "DefaultCPUAllocator"


@dataclass(frozen=True, slots=True)
class Answer:
    """What torch said."""

    error: Exception | None = None
    """What it raised over devices."""
    result: Any = None
    """The results, where all of them are on meta."""
    on_meta: tuple[bool, ...] = ()
    """Of each result, whether it is there."""
    invalid: bool = False
    """Whether the call is wrong wherever its tensors are: no finding of devices."""

    @property
    def silent_result(self) -> SilentResult | None:
        """What the call gives where nothing was raised over devices."""
        if self.error is not None:
            return None
        return "unfilled" if self.result is None else "meta"


def asked(call: Call, named: Named, devices: Sequence[torch.device]) -> Answer | None:
    """What torch says of a call with these tensors; None where it could not be asked."""
    if any(tensor.layout is not torch.strided or tensor.is_quantized for _, tensor, _ in named):
        return None
    gpu = next((device for device in devices if device.type == "cuda"), CPU)
    data = [tensor for (_, tensor, _), device in zip(named, devices, strict=True) if device != META]
    if gpu != CPU and any(tensor.dim() == 0 for tensor in data):
        answer = _tried(call, data, gpu, numbers=False)
        if answer is not None and answer.error is not None:
            return answer
    return _tried(call, data, gpu, numbers=True)


def for_shapes(named: Named, devices: Sequence[torch.device]) -> bool:
    """Whether a program asks for shapes alone: numbers on the host are all that its meta tensors meet."""
    return all(
        device == META or (device == CPU and tensor.dim() == 0)
        for (_, tensor, _), device in zip(named, devices, strict=True)
    )


def _tried(call: Call, data: Sequence[Tensor], gpu: torch.device, *, numbers: bool) -> Answer | None:
    """What torch says with stand-ins on the host; without `numbers`, one without dimensions gets one."""
    try:
        places = {id(tensor): _place(tensor, numbers) for tensor in data}
    except (RuntimeError, OSError):  # more than this computer has
        return None
    args = tuple(replace_tensors(value, places) for value in call.args)
    kwargs = {name: replace_tensors(value, places) for name, value in call.kwargs.items()}
    try:
        with warnings.catch_warnings(action="ignore"), torch.no_grad(), _Shapes():  # type: ignore[no-untyped-call] # of torch
            result = call.op.func(*args, **kwargs)
    except RuntimeError as error:
        text = str(error).partition("\n")[0]
        if _TOO_LARGE in text:  # memory on the host stands for the GPU's
            return Answer()
        if _ABOUT_DEVICES.search(text) is None:
            return Answer(invalid=True)
        return Answer(type(error)(re.sub(r"\bcpu\b", str(gpu), text)))
    except (IndexError, TypeError, ValueError):
        return Answer(invalid=True)
    except Exception:
        return None
    on_meta = tuple([each.device == META for each in tensors_in(result)])
    return Answer(result=result if on_meta and all(on_meta) else None, on_meta=on_meta)


def _place(tensor: Tensor, numbers: bool) -> Tensor:
    """A tensor on the host of that shape; a small one has its values, which a mask selects by."""
    if not numbers and tensor.dim() == 0:
        return torch.zeros(1, dtype=tensor.dtype, device=CPU)
    if tensor.numel() * tensor.element_size() <= VALUE_LIMIT:
        value: Tensor = to_value(tensor)
        return value.clone()
    return _unfilled(tensor.size(), tensor.stride(), tensor.dtype)


def _unfilled(size: Sequence[int], stride: Sequence[int], dtype: torch.dtype) -> Tensor:
    """Memory of the host that costs nothing until somebody writes it."""
    last = sum((each - 1) * step for each, step in zip(size, stride, strict=True))
    nbytes = 0 if 0 in size else (1 + last) * dtype.itemsize
    if nbytes <= VALUE_LIMIT:
        return torch.empty_strided(size, stride, dtype=dtype, device=CPU).zero_()
    made = torch.empty(0, dtype=dtype, device=CPU)
    return made.set_(unbacked(nbytes), 0, size, stride)


class _NotKnownError(Exception):
    """The shape of a large result depends on values."""


class _Shapes(TorchDispatchMode):  # type: ignore[no-untyped-call] # of torch
    """See Note [Nothing is computed]."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        tensors = list(tensors_in([*args, *kwargs.values()]))
        if any(each.device == META for each in tensors):
            return self._shape_function(func, args, kwargs)
        if held(tensors) <= VALUE_LIMIT:
            return func(*args, **kwargs)
        try:
            shapes = func(*map(to_meta, args), **{name: to_meta(value) for name, value in kwargs.items()})
        except RuntimeError as error:
            raise _NotKnownError from error
        return _filled_nowhere(shapes)

    def _shape_function(self, func: Any, args: Any, kwargs: Any) -> Any:
        """What the dispatcher runs, with this mode for what that calls. An operator that is made of others
        has no shape function: one that is there is the machine's own.
        """
        if torch._C._dispatch_has_kernel_for_dispatch_key(func.name(), "CompositeImplicitAutograd"):
            with self:
                return func.decompose(*args, **kwargs)
        if not torch._C._dispatch_has_kernel_for_dispatch_key(func.name(), "Meta"):
            key = next((key for key in EXPLICIT if func.has_kernel_for_dispatch_key(key)), None)
            if key is None:
                return func(*args, **kwargs)
            with self:
                return func._op_dk(key, *args, **kwargs)
        with self:
            return func._op_dk(DispatchKey.Meta, *args, **kwargs)


def _filled_nowhere(shapes: Any) -> Any:
    """Tensors on the host for those on meta."""
    if isinstance(shapes, Tensor):
        return _unfilled(shapes.size(), shapes.stride(), shapes.dtype)
    return type(shapes)(map(_filled_nowhere, shapes)) if isinstance(shapes, (tuple, list)) else shapes
